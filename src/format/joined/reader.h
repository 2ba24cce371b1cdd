#pragma once

#include <memory>
#include <span>
#include <vector>

#include "format/joined/source.h"
#include "kernel/repack_row.h"

// A joined matrix under a choice of columns: one reader for each part. While rows are packed, their
// columns are renumbered to the joined columns.

namespace penstock::format {

/// Data that a joined source and its readers share.
struct JoinedMatrix {
  std::vector<JoinedPart> parts;
  std::vector<size_t> first_unit;      ///< of each part among all units, and one past the last
  std::vector<plan::FetchUnit> units;  ///< of all parts, row offsets added
  std::vector<uint32_t> unit_of_part;  ///< number of each unit within its part
  MatrixInfo info;

  size_t part_of(uint32_t unit) const;
};

class JoinedReader final : public MatrixReader, public std::enable_shared_from_this<JoinedReader> {
 public:
  JoinedReader(std::shared_ptr<const JoinedMatrix> matrix, std::span<const int64_t> columns);

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
  /// Null unless every part with some of the rows can address them.
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  struct Part {
    std::shared_ptr<const MatrixReader> reader;
    kernel::ColumnNumbers numbers;
    bool same_layout = false;  ///< as the joined rows
  };
  const Part& part(size_t index) const { return parts_[index]; }

 private:
  double packed_bytes_per_cell_of_part(size_t part) const;

  std::shared_ptr<const JoinedMatrix> matrix_;
  kernel::PackedRowLayout layout_;
  std::vector<Part> parts_;
};

/// A unit of one part.
class JoinedDecode final : public UnitDecode {
 public:
  JoinedDecode(std::shared_ptr<const JoinedReader> reader, size_t part,
               std::unique_ptr<UnitDecode> decode)
      : reader_(std::move(reader)), part_(part), decode_(std::move(decode)) {}

  void fetch() override { decode_->fetch(); }
  size_t phase_count() const override { return decode_->phase_count(); }
  size_t task_count(size_t phase) const override { return decode_->task_count(phase); }
  void run(size_t phase, size_t task) override { decode_->run(phase, task); }
  uint32_t row_count() const override { return decode_->row_count(); }
  uint32_t nnz(uint32_t row) const override { return decode_->nnz(row); }
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return decode_->wide_count(row); }
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override { return decode_->bytes_read(); }
  uint64_t read_count() const override { return decode_->read_count(); }
  uint64_t cached_bytes() const override { return decode_->cached_bytes(); }
  void take_buffers(UnitDecode& finished) override {
    auto* const other = dynamic_cast<JoinedDecode*>(&finished);
    if (other != nullptr) decode_->take_buffers(*other->decode_);
  }

  std::unique_ptr<UnitDecode> release() { return std::move(decode_); }

 private:
  std::shared_ptr<const JoinedReader> reader_;
  size_t part_;
  std::unique_ptr<UnitDecode> decode_;
};

}  // namespace penstock::format
