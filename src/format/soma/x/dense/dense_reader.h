#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/lazy.h"
#include "format/cells/column_map.h"
#include "format/cells/dense_block.h"
#include "format/matrix_source.h"
#include "format/soma/x/decode/tile_cells.h"
#include "format/soma/x/dense/dense_array.h"

// A dense X array under a choice of columns. Rows are packed without zeros (all bits 0; -0.0 is a
// value).
//
// A unit in flight holds the chosen rows and columns as a dense block of the stored type.
//   phase 0   one task for each tile of the grid: the fragments' tiles there, oldest first
//   phase 1   counts the non-zeros of rows, some hundred rows a task

namespace penstock::format::soma {

class XDenseReader final : public MatrixReader, public std::enable_shared_from_this<XDenseReader> {
 public:
  XDenseReader(std::shared_ptr<const XDenseArray> array, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  bool remote() const override { return array_->store().traits().remote; }
  double packed_bytes_per_cell() const override;
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;

  const XDenseArray& array() const noexcept { return *array_; }
  std::span<const int64_t> columns() const noexcept { return columns_; }

 private:
  uint64_t bytes_of(const RowSelection& rows, const XBox& within) const;
  double sample_packed_bytes() const;

  std::shared_ptr<const XDenseArray> array_;
  std::vector<int64_t> columns_;
  ColumnMap map_;
  kernel::PackedRowLayout layout_;
  Lazy<double> packed_bytes_;
};

class XDenseDecode final : public UnitDecode {
 public:
  explicit XDenseDecode(std::shared_ptr<const XDenseReader> reader) {
    set_reader(std::move(reader));
  }
  void set_reader(std::shared_ptr<const XDenseReader> reader) {
    reader_ = std::move(reader);
    value_bytes_ = reader_->row_layout().value_bytes;
  }

  void start(std::vector<int64_t> rows);

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
  uint64_t read_count() const override { return requests_.size(); }

 private:
  /// A tile of the grid with chosen rows and columns: index ranges of rows_ and columns().
  struct Part {
    int64_t grid_row = 0, grid_column = 0;
    size_t row_begin = 0, row_end = 0;
    size_t column_begin = 0, column_end = 0;
  };
  /// A fragment's tile of a part.
  struct Stored {
    size_t part = 0;
    size_t fragment = 0;
    uint64_t tile = 0;
    std::span<const std::byte> bytes;
  };

  void find_parts();
  void plan_fragment(size_t fragment);
  void fill(const Part& part);
  void decode(const Part& part, const Stored& stored);

  std::shared_ptr<const XDenseReader> reader_;
  size_t value_bytes_ = 0;
  std::vector<int64_t> rows_;
  std::vector<Part> parts_;
  std::vector<Stored> stored_;  // by part, then fragment
  std::vector<Buffer> reads_;
  std::vector<io::ReadRequest> requests_;
  DenseBlock block_;
  uint64_t bytes_read_ = 0;
};

}  // namespace penstock::format::soma
