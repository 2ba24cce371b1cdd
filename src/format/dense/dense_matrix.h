#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/chunked/array.h"
#include "format/matrix_source.h"

// A dense matrix: a stored array of two dimensions (format/chunked/array.h), of which rows are read
// without zeros. A fetch unit is a band of chunks.

namespace penstock::format {

class DenseMatrix {
 public:
  /// Throws CorruptData unless the array has `rows` x `columns` numbers, Unsupported for other
  /// types; each with the array's path.
  static std::shared_ptr<const DenseMatrix> load(chunked::ArrayPtr array, uint64_t rows,
                                                 uint64_t columns);

  const MatrixInfo& info() const noexcept { return info_; }
  const std::vector<plan::FetchUnit>& units() const noexcept { return units_; }
  const chunked::Array& array() const noexcept { return *array_; }
  const chunked::ArrayPtr& shared_array() const noexcept { return array_; }
  int64_t chunk_rows() const noexcept { return chunk_rows_; }
  int64_t chunk_columns() const noexcept { return chunk_columns_; }
  int64_t grid_columns() const noexcept { return grid_columns_; }
  double chunk_bytes() const noexcept { return chunk_bytes_; }

 private:
  DenseMatrix() = default;
  void make_units();

  chunked::ArrayPtr array_;
  MatrixInfo info_;
  int64_t chunk_rows_ = 1, chunk_columns_ = 1, grid_columns_ = 0;
  double chunk_bytes_ = 0;
  std::vector<plan::FetchUnit> units_;
};

MatrixSourcePtr make_dense_source(std::shared_ptr<const DenseMatrix> matrix);

}  // namespace penstock::format
