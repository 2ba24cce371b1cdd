#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/chunked/array.h"
#include "format/csr/compressed_arrays.h"
#include "format/csr/row_offsets.h"
#include "format/matrix_source.h"

// A CSR matrix of three stored arrays: data and indices, which have one element for each non-zero,
// and indptr. The two have chunks of their own, which may differ. Opening reads indptr, whole; the
// rest is read unit by unit. Immutable, shared by readers.
//
// A fetch unit is some tens of chunks of both arrays. Stores without codecs are read by row, so
// their units are cut anywhere.

namespace penstock::format {

/// The arrays of a CSR matrix, in this order wherever both are treated alike.
enum class CsrPart : uint8_t { kIndices, kData };
inline constexpr size_t kCsrParts = 2;

class CsrArray {
 public:
  /// `group` holds data, indices and indptr. `shape` is rows and columns. `threads` decode indptr.
  /// Throws NotFound if an array is missing, CorruptData if they contradict each other or `shape`,
  /// Unsupported for types that are not read; each with the path.
  static std::shared_ptr<const CsrArray> load(const chunked::Group& group, uint64_t rows,
                                              uint64_t columns, unsigned threads);

  const MatrixInfo& info() const noexcept { return info_; }
  const std::vector<plan::FetchUnit>& units() const noexcept { return units_; }
  const std::string& path() const noexcept { return path_; }
  const RowOffsets& offsets() const noexcept { return offsets_; }
  const chunked::Array& array(CsrPart part) const noexcept {
    return part == CsrPart::kIndices ? *arrays_.indices : *arrays_.data;
  }
  /// Elements of a chunk.
  uint64_t chunk_length(CsrPart part) const noexcept { return array(part).info().chunk_shape[0]; }
  /// Whether any part of a chunk can be read alone: no codec, a cell is its bytes.
  bool addresses_elements(CsrPart part) const noexcept {
    return array(part).info().pipeline.filters().empty();
  }
  bool addresses_elements() const noexcept {
    return addresses_elements(CsrPart::kIndices) && addresses_elements(CsrPart::kData);
  }
  /// Expected stored bytes of a chunk.
  double chunk_bytes(CsrPart part) const noexcept {
    return chunk_bytes_[static_cast<size_t>(part)];
  }

  /// The same matrix over forward_arrays(); null if there are none.
  std::shared_ptr<const CsrArray> in_order() const;

  /// Identifies what is stored, by place and versions of the objects; empty if the store cannot
  /// tell.
  std::string content() const;

  /// Expected stored bytes of the chunks that hold rows of `rows` in [row_begin, row_end), of both
  /// arrays.
  uint64_t bytes_of(const RowSelection& rows, int64_t row_begin, int64_t row_end) const;

 private:
  CsrArray() = default;
  CsrArray(const CsrArray&) = default;
  void make_units();
  uint64_t bytes_of_elements(CsrPart part, const RowSelection& rows, int64_t row_begin,
                             int64_t row_end) const;

  std::string path_;
  MatrixInfo info_;
  RowOffsets offsets_;
  CompressedArrays arrays_;
  double chunk_bytes_[kCsrParts] = {};
  std::vector<plan::FetchUnit> units_;
};

}  // namespace penstock::format
