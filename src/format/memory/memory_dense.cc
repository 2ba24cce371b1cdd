#include <penstock/error.h>

#include <cstring>
#include <utility>

#include "base/concat.h"
#include "format/cells/column_table.h"
#include "format/memory/memory_rows.h"

namespace penstock::format {
namespace {

class DenseMemoryMatrix final : public MemoryMatrix,
                                public std::enable_shared_from_this<DenseMemoryMatrix> {
 public:
  DenseMemoryMatrix(DenseInMemory matrix) : matrix_(std::move(matrix)) {
    const size_t size = size_of(matrix_.data.type);
    info_.row_domain_end =
        static_cast<int64_t>(matrix_.view.all_rows ? matrix_.rows : matrix_.view.rows.size());
    info_.column_domain_end = static_cast<int64_t>(
        matrix_.view.all_columns ? matrix_.columns : matrix_.view.columns.size());
    info_.value_type = matrix_.data.type;
    info_.stored_cells = entries(0, info_.row_domain_end);
    info_.stored_bytes = info_.stored_cells * size;
    info_.fragment_count = 1;
    info_.tile_count = 1;
    info_.layout = "dense in memory";
  }

  const MatrixInfo& info() const override { return info_; }
  uint64_t entries(int64_t begin, int64_t end) const override {
    return static_cast<uint64_t>(end - begin) * static_cast<uint64_t>(info_.column_domain_end);
  }
  std::unique_ptr<const MemoryRows> rows(std::span<const int64_t> columns) const override;

  const std::byte* row(int64_t row) const noexcept {
    const int64_t stored =
        matrix_.view.all_rows ? row : matrix_.view.rows[static_cast<size_t>(row)];
    return matrix_.data.data + stored * matrix_.row_stride;
  }
  const DenseInMemory& matrix() const noexcept { return matrix_; }
  const MemoryView& view() const noexcept { return matrix_.view; }

 private:
  DenseInMemory matrix_;
  MatrixInfo info_;
};

class DenseMemoryRows final : public MemoryRows {
 public:
  DenseMemoryRows(std::shared_ptr<const DenseMemoryMatrix> matrix, std::span<const int64_t> columns)
      : matrix_(std::move(matrix)),
        columns_(columns, matrix_->view().columns, matrix_->view().all_columns,
                 matrix_->matrix().columns),
        value_bytes_(size_of(matrix_->matrix().data.type)) {}

  uint64_t most_entries(int64_t /*row*/) const override { return columns_.stored().size(); }

  void read(int64_t row, RowEntries& out) const override {
    switch (value_bytes_) {
      case 1:
        return find<uint8_t>(row, out);
      case 2:
        return find<uint16_t>(row, out);
      case 4:
        return find<uint32_t>(row, out);
      default:
        return find<uint64_t>(row, out);
    }
  }

 private:
  // Every cell is written, but the place advances only after a non-zero: no branch to mispredict.
  template <typename Bits>
  void find(int64_t row, RowEntries& out) const {
    const auto stored = columns_.stored();
    const std::byte* const from = matrix_->row(row);
    const int64_t stride = matrix_->matrix().column_stride;
    out.index_memory.resize(stored.size() + 1);
    out.value_memory.resize((stored.size() + 1) * sizeof(Bits));
    size_t kept = 0;
    const auto take = [&](size_t i, const std::byte* cell) {
      Bits bits;
      std::memcpy(&bits, cell, sizeof(Bits));
      out.index_memory[kept] = static_cast<uint32_t>(i);
      std::memcpy(out.value_memory.data() + kept * sizeof(Bits), &bits, sizeof(Bits));
      kept += bits != 0;
    };
    if (columns_.all() && stride == sizeof(Bits)) {
      for (size_t i = 0; i < stored.size(); ++i) take(i, from + i * sizeof(Bits));
    } else {
      for (size_t i = 0; i < stored.size(); ++i) take(i, from + stored[i] * stride);
    }
    out.indices = {out.index_memory.data(), kept};
    out.values = out.value_memory.data();
  }

  std::shared_ptr<const DenseMemoryMatrix> matrix_;
  ColumnTable columns_;
  size_t value_bytes_;
};

std::unique_ptr<const MemoryRows> DenseMemoryMatrix::rows(std::span<const int64_t> columns) const {
  return std::make_unique<const DenseMemoryRows>(shared_from_this(), columns);
}

}  // namespace

std::shared_ptr<const MemoryMatrix> make_dense_matrix(DenseInMemory matrix) {
  return std::make_shared<const DenseMemoryMatrix>(std::move(matrix));
}

}  // namespace penstock::format
