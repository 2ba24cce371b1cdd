#include "format/dense/dense_matrix.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// Bytes of decoded cells that a unit has about, if its chunks are small.
constexpr int64_t kUnitBytes = int64_t{16} << 20;
constexpr int64_t kUnitRows = 2048;

}  // namespace

std::shared_ptr<const DenseMatrix> DenseMatrix::load(chunked::ArrayPtr array, uint64_t rows,
                                                     uint64_t columns) {
  std::shared_ptr<DenseMatrix> made(new DenseMatrix());
  const chunked::ArrayInfo& info = array->info();
  if (info.shape.size() != 2 || info.shape[0] != rows || info.shape[1] != columns) {
    std::string shape;
    for (const uint64_t length : info.shape) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(length);
    }
    throw CorruptData(concat("a matrix must be ", rows, " cells x ", columns,
                             " genes, as obs and var say; this one is ", shape, ", in ",
                             info.path));
  }
  with_place([&] { kernel::make_row_layout(columns, info.type); }, [&] { return info.path; });
  made->array_ = std::move(array);
  made->info_.row_domain_end = checked_cast<int64_t>(rows, "number of rows");
  made->info_.column_domain_end = checked_cast<int64_t>(columns, "number of columns");
  made->info_.value_type = info.type;
  made->info_.stored_cells = checked_mul(rows, columns, "number of cells");
  made->info_.tile_count = info.chunk_count();
  made->info_.fragment_count = 1;
  made->info_.layout = "dense, " + info.layout;
  made->chunk_rows_ = checked_cast<int64_t>(info.chunk_shape[0], "rows of a chunk");
  made->chunk_columns_ = checked_cast<int64_t>(info.chunk_shape[1], "columns of a chunk");
  made->grid_columns_ =
      (made->info_.column_domain_end + made->chunk_columns_ - 1) / made->chunk_columns_;
  made->chunk_bytes_ = made->array_->stored_bytes_per_chunk();
  made->info_.stored_bytes =
      static_cast<uint64_t>(made->chunk_bytes_ * static_cast<double>(made->info_.tile_count));
  made->make_units();
  return made;
}

// Whole bands of chunks, so that no chunk is read twice.
void DenseMatrix::make_units() {
  const int64_t row_bytes = std::max<int64_t>(
      1,
      checked_mul(info_.column_domain_end, int64_t{array_->info().cell_bytes}, "bytes of a row"));
  const int64_t wanted = std::clamp<int64_t>(kUnitBytes / row_bytes, 1, kUnitRows);
  const int64_t bands = std::max<int64_t>(1, wanted / chunk_rows_);
  const int64_t step = checked_mul(bands, chunk_rows_, "rows of a unit");
  for (int64_t begin = 0; begin < info_.row_domain_end; begin += step) {
    const int64_t end = std::min(info_.row_domain_end, begin + step);
    const auto tiles =
        static_cast<uint64_t>((end - begin + chunk_rows_ - 1) / chunk_rows_ * grid_columns_);
    units_.push_back(
        {begin, end,
         static_cast<uint64_t>(end - begin) * static_cast<uint64_t>(info_.column_domain_end),
         static_cast<uint64_t>(static_cast<double>(tiles) * chunk_bytes_),
         static_cast<uint32_t>(tiles)});
  }
}

}  // namespace penstock::format
