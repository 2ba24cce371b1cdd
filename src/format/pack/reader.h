#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "base/threads/lazy.h"
#include "format/matrix_source.h"
#include "format/pack/packed_layer.h"
#include "format/pack/record_runs.h"
#include "format/row_file/record_unpacker.h"

// A packed layer under a choice of columns, read by units and row by row.

namespace penstock::format::pack {

class PackReader final : public MatrixReader, public std::enable_shared_from_this<PackReader> {
 public:
  PackReader(std::shared_ptr<const PackedLayer> layer, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return unpacker_.layout(); }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t decode_bytes(uint32_t unit, std::span<const int64_t> rows) const override;
  bool remote() const override { return !layer_->files.empty() && layer_->files.front()->remote(); }
  double packed_bytes_per_cell() const override { return sample().packed_bytes; }
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  const PackedLayer& layer() const noexcept { return *layer_; }
  const RecordUnpacker& unpacker() const noexcept { return unpacker_; }

  struct Sample {
    double packed_bytes = 3;  ///< of a stored cell
    double stored_bytes_per_row = 0;
    double packed_bytes_per_row = 0;
  };
  /// Returns averages over some rows spread over the layer.
  const Sample& sample() const;

 private:
  Sample take_sample() const;

  std::shared_ptr<const PackedLayer> layer_;
  RecordUnpacker unpacker_;
  Lazy<Sample> sample_;
};

/// Rows one by one. Records that lie together are read at once. From a remote store all reads of a
/// call are made at once.
class PackRowReader final : public RowReader {
 public:
  explicit PackRowReader(std::shared_ptr<const PackReader> reader) : reader_(std::move(reader)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override;
  double buffer_bytes_per_row() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;
  uint64_t request_bytes() const override;

 private:
  std::shared_ptr<const PackReader> reader_;
};

}  // namespace penstock::format::pack
