#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "format/chunked/array.h"
#include "format/matrix_source.h"

// The three arrays of a sparse matrix that is compressed by rows (CSR) or by columns (CSC): data
// and indices have one element for each non-zero, indptr has the first element of each line.

namespace penstock::format {

struct CompressedArrays {
  chunked::ArrayPtr data, indices, indptr;
  uint64_t elements = 0;

  /// What is stored, by place and versions of the objects; empty if the store cannot tell.
  std::string content() const;
};

/// How messages name the matrix and what indptr is of: "CSR" and "row".
struct CompressedKind {
  std::string_view name;
  std::string_view line;
};

/// Opens data, indices and indptr of `group`. Throws NotFound or CorruptData if an array is missing
/// or they contradict each other or `lines`, Unsupported for types that are not read; each with the
/// path. Reads no element.
CompressedArrays open_compressed(const chunked::Group& group, const CompressedKind& kind,
                                 uint64_t lines);

/// Calls take(offsets) for consecutive parts of indptr. Adds the array's path to errors.
void read_offsets(const chunked::Array& indptr, unsigned threads,
                  const std::function<void(std::span<const uint64_t>)>& take);

/// Throws CorruptData unless indptr, which ended at `last`, covers all elements.
void expect_all_elements(const CompressedArrays& arrays, uint64_t last, const std::string& path);

/// Facts of the matrix. `layout` begins with `name`, in lower case.
MatrixInfo compressed_info(const CompressedArrays& arrays, uint64_t rows, uint64_t columns,
                           std::string_view layout);

}  // namespace penstock::format
