#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "format/matrix_source.h"
#include "format/pack/packed_layer.h"
#include "format/pack/record_unpacker.h"

// A packed layer under a choice of columns, as units and row by row.

namespace penstock::format::pack {

class PackReader final : public MatrixReader, public std::enable_shared_from_this<PackReader> {
 public:
  PackReader(std::shared_ptr<const PackedLayer> layer, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return unpacker_.layout(); }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  double packed_bytes_per_cell() const override { return sample().packed_bytes; }
  uint64_t bytes_needed(const RowSelection& rows) const override;
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  const PackedLayer& layer() const noexcept { return *layer_; }
  const RecordUnpacker& unpacker() const noexcept { return unpacker_; }

  struct Sample {
    double packed_bytes = 3;  ///< a stored cell
    double stored_bytes_per_row = 0;
    double packed_bytes_per_row = 0;
  };
  /// Averages over some rows spread over the layer.
  const Sample& sample() const;

 private:
  Sample take_sample() const;

  std::shared_ptr<const PackedLayer> layer_;
  RecordUnpacker unpacker_;
  mutable std::once_flag sampled_;
  mutable Sample sample_;
};

/// Rows by themselves: a read for each run of records that lie together.
class PackRowReader final : public RowReader {
 public:
  explicit PackRowReader(std::shared_ptr<const PackReader> reader) : reader_(std::move(reader)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override;
  double buffer_bytes_per_row() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;

 private:
  std::shared_ptr<const PackReader> reader_;
};

/// A read that brings several records: `begin` and `end` are places in the order of the records.
struct RecordRun {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  size_t begin = 0;
  size_t end = 0;
};

/// Records in the order of files and offsets to reads; records that are at most `gap` bytes apart
/// are read together. Empty ones belong to no run.
std::vector<RecordRun> runs_of(std::span<const StoredRow> sorted, uint64_t gap);

}  // namespace penstock::format::pack
