#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/chunked/array.h"
#include "format/csr/compressed_arrays.h"
#include "format/matrix_source.h"

// A CSC matrix of three stored arrays: columns of cells x genes lie behind one another. Opening
// reads indptr, whole, and nothing else. Immutable.

namespace penstock::format {

class CscArray {
 public:
  /// `group` holds data, indices and indptr. Errors are those of CsrArray::load; Unsupported also
  /// for 2^32 rows or more.
  static std::shared_ptr<const CscArray> load(const chunked::Group& group, uint64_t rows,
                                              uint64_t columns, unsigned threads);

  const MatrixInfo& info() const noexcept { return info_; }
  const std::string& path() const noexcept { return path_; }
  const chunked::Array& indices() const noexcept { return *arrays_.indices; }
  const chunked::Array& data() const noexcept { return *arrays_.data; }
  uint64_t rows() const noexcept { return static_cast<uint64_t>(info_.row_domain_end); }
  uint64_t columns() const noexcept { return offsets_.size() - 1; }
  uint64_t elements() const noexcept { return arrays_.elements; }

  /// Elements of column c are [column_begin(c), column_begin(c + 1)).
  uint64_t column_begin(uint64_t column) const noexcept { return offsets_[column]; }
  /// The column that has this element. `element` < elements().
  uint64_t column_of(uint64_t element) const noexcept;

  /// The same matrix over forward_arrays(); null if there are none.
  std::shared_ptr<const CscArray> in_order() const;

  /// As CsrArray::content.
  std::string content() const;

 private:
  CscArray() = default;
  CscArray(const CscArray&) = default;
  void append_offset(uint64_t offset);

  std::string path_;
  MatrixInfo info_;
  CompressedArrays arrays_;
  std::vector<uint64_t> offsets_;  ///< 8 bytes a gene: there are 10^5 at most
};

/// A source whose reader() throws Unsupported, and which has row_bands() instead.
MatrixSourcePtr make_csc_source(std::shared_ptr<const CscArray> array);

}  // namespace penstock::format
