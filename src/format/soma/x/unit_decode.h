#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "format/matrix_source.h"
#include "format/soma/x/decode/row_index.h"
#include "format/soma/x/decode/tile_decode.h"
#include "io/store.h"

// One fetch unit of a 2-D sparse array in flight (format/matrix_source.h says how it is driven).
//
//   phase 0   tiles, a few thousand cells or more a task, each into a stage of its own
//   phase 1   one task: the runs of all stages by row
//   phase 2   tiles with duplicates that only timestamps settle, again (nearly always none)
//   phase 3   the runs again, after phase 2
//   phase 4   rows whose runs do not simply follow one another, merged, some hundred a task
//
// Rows then lie as runs in the stages and are copied once, by pack. Buffers stay with the object,
// which is recycled from unit to unit.

namespace penstock::format::soma {

/// Scratch memory of decode tasks, taken and given back by threads.
class XScratchPool {
 public:
  std::unique_ptr<XTileScratch> take();
  void give(std::unique_ptr<XTileScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<XTileScratch>> free_;
};

class XUnitDecode final : public UnitDecode {
 public:
  /// `keep_alive` owns what the context refers to. `tiles` by fragment, then number.
  XUnitDecode(std::shared_ptr<const void> keep_alive, const XDecodeContext& context,
              XScratchPool& scratch_pool);

  void start(std::vector<XTileId> tiles, std::vector<int64_t> rows);
  const void* reader() const noexcept { return keep_alive_.get(); }

  void fetch() override;
  size_t phase_count() const override { return 5; }
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;

  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return index_.row(row).nnz; }
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return wide_form(index_.row(row)); }
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

  uint64_t read_count() const override { return read_count_; }
  void take_buffers(UnitDecode& finished) override;

  /// What it holds now, scratch apart: what XReader::in_flight_bytes must have counted.
  uint64_t memory_bytes() const;

 private:
  struct Wanted {
    size_t tile;
    XPart part;
  };

  void plan_fragment(size_t tile_begin, size_t tile_end, const io::CoalescingOptions& options,
                     std::vector<io::ReadRequest>& requests);
  void make_tile_tasks();
  void decode_tile(size_t tile);
  void decode_tile_again(size_t tile);
  uint32_t wide_form(const XRowSummary& row) const;

  std::shared_ptr<const void> keep_alive_;
  const XDecodeContext& context_;
  XScratchPool& scratch_pool_;

  std::vector<int64_t> rows_;
  XRowMap row_map_;
  std::vector<XTileId> tiles_;
  std::vector<XTileBytes> tile_bytes_;
  std::vector<size_t> task_begins_;  // tiles of phase 0's tasks
  std::vector<Buffer> reads_;        // stored bytes, one a read, kept for the next unit
  size_t read_count_ = 0;
  std::vector<XTileStage> stages_;  // of the tiles
  std::vector<XTileStage> merged_;  // of phase 4's tasks
  XRowIndex index_;
  std::atomic<uint64_t> bytes_read_{0};
};

}  // namespace penstock::format::soma
