#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/threads/lazy.h"
#include "format/cells/column_map.h"
#include "format/cells/dense_block.h"
#include "format/chunked/stored_chunks.h"
#include "format/dense/dense_matrix.h"

// A stored dense matrix under a choice of columns.
//
//   phase 0   a task for each chunk with chosen rows and columns
//   phase 1   counts the non-zeros of rows, 64 rows a task

namespace penstock::format {

class DenseReader final : public MatrixReader, public std::enable_shared_from_this<DenseReader> {
 public:
  DenseReader(std::shared_ptr<const DenseMatrix> matrix, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t decode_bytes(uint32_t unit, std::span<const int64_t> rows) const override;
  bool remote() const override { return matrix_->array().store().traits().remote; }
  double packed_bytes_per_cell() const override;
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;

  const DenseMatrix& matrix() const noexcept { return *matrix_; }
  std::span<const int64_t> columns() const noexcept { return columns_.ids(); }

 private:
  double sample_packed_bytes() const;
  uint64_t bytes_of(const RowSelection& rows, int64_t row_begin, int64_t row_end) const;

  std::shared_ptr<const DenseMatrix> matrix_;
  ColumnMap columns_;
  kernel::PackedRowLayout layout_;
  int64_t touched_columns_ = 0;  ///< columns of chunks with chosen columns
  Lazy<double> packed_bytes_;
};

class DenseDecode final : public UnitDecode {
 public:
  explicit DenseDecode(std::shared_ptr<const DenseReader> reader) : reader_(std::move(reader)) {}

  void start(std::vector<int64_t> rows);
  void set_reader(std::shared_ptr<const DenseReader> reader) { reader_ = std::move(reader); }

  void fetch() override;
  size_t phase_count() const override { return 2; }
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;

  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return block_.nnz(row); }
  size_t packed_bytes(uint32_t row) const override { return block_.packed_bytes(row); }
  uint32_t wide_count(uint32_t row) const override { return block_.wide_count(row); }
  void pack(uint32_t row, std::byte* destination) const override { block_.pack(row, destination); }
  uint64_t bytes_read() const override { return bytes_read_; }
  uint64_t read_count() const override { return stored_ ? stored_->read_count() : 0; }

 private:
  /// A chunk with chosen rows and columns: index ranges of rows_ and of the reader's columns.
  struct Part {
    uint64_t chunk = 0;
    int64_t first_row = 0, first_column = 0;
    size_t row_begin = 0, row_end = 0;
    size_t column_begin = 0, column_end = 0;
    chunked::ChunkPlace place;
    std::span<const std::byte> stored;
  };

  void find_parts();
  void decode(Part& part);

  std::shared_ptr<const DenseReader> reader_;
  std::vector<int64_t> rows_;
  std::vector<Part> parts_;
  std::optional<chunked::StoredChunks> stored_;
  uint64_t bytes_read_ = 0;
  DenseBlock block_;
};

}  // namespace penstock::format
