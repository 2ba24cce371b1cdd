#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "format/beside/source.h"
#include "kernel/beside_rows.h"

// Matrices beside one another under a choice of columns: one reader for each part of which columns
// are chosen. While rows are packed, those of the parts become one record.

namespace penstock::format {

class BesideReader final : public MatrixReader, public std::enable_shared_from_this<BesideReader> {
 public:
  BesideReader(std::shared_ptr<const BesideMatrix> matrix, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t fetched_bytes(uint32_t unit) const override;
  bool remote() const override;
  double packed_bytes_per_cell() const override;
  double packed_bytes_per_cell_of(uint32_t unit) const override;
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;
  /// Null unless every part can address its rows.
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  struct Part {
    size_t index = 0;  ///< among the parts of the matrix
    std::shared_ptr<const MatrixReader> reader;
    uint32_t first_column = 0;  ///< of the chosen columns
    int64_t row_end = 0;        ///< its rows end here
  };
  std::span<const Part> parts() const noexcept { return parts_; }

 private:
  /// Sums over the parts that have rows of the unit: `bytes` of their unit, times the share of its
  /// stored bytes that is read for these rows.
  uint64_t sum(uint32_t unit, const std::function<uint64_t(const Part&, uint32_t)>& bytes) const;
  double packed_bytes_per_cell(const Part& part, double bytes) const;

  std::shared_ptr<const BesideMatrix> matrix_;
  kernel::PackedRowLayout layout_;
  std::vector<Part> parts_;
};

/// One unit: the rows of each part are decoded side by side.
class BesideDecode final : public UnitDecode {
 public:
  struct Part {
    std::unique_ptr<UnitDecode> decode;  ///< null: the part has no rows here
    kernel::PackedRowLayout layout;
    uint32_t first_column = 0;
  };
  BesideDecode(std::shared_ptr<const BesideReader> reader, uint32_t row_count,
               std::vector<Part> parts)
      : reader_(std::move(reader)), row_count_(row_count), parts_(std::move(parts)) {}

  void fetch() override;
  size_t phase_count() const override;
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;
  uint32_t row_count() const override { return row_count_; }
  uint32_t nnz(uint32_t row) const override;
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return header(row).wide_count; }
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override;
  uint64_t read_count() const override;
  uint64_t cached_bytes() const override;
  void take_buffers(UnitDecode& finished) override;

  const BesideReader* reader() const noexcept { return reader_.get(); }
  std::unique_ptr<UnitDecode> release(size_t part) { return std::move(parts_[part].decode); }

 private:
  kernel::PackedRowHeader header(uint32_t row) const;

  std::shared_ptr<const BesideReader> reader_;
  uint32_t row_count_;
  std::vector<Part> parts_;
};

}  // namespace penstock::format
