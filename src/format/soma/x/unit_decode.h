#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/mutex.h"
#include "format/matrix_source.h"
#include "format/soma/x/decode/row_index.h"
#include "format/soma/x/decode/tile_decode.h"
#include "io/store.h"

// One fetch unit of a 2-D sparse array in flight (see format/matrix_source.h for the calls).
//
//   phase 0   tiles, a few thousand cells or more a task, each into its own stage
//   phase 1   one task: the runs of all stages by row
//   phase 2   decodes tiles again whose duplicates need timestamps (nearly always none)
//   phase 3   phase 1 again, after phase 2
//   phase 4   merges rows whose runs overlap, some hundred rows a task
//
// Rows are then runs in the stages, and pack() copies them once. The object is recycled for later
// units and keeps its buffers.

namespace penstock::format::soma {

/// Scratch memory of decode tasks; threads take it and give it back.
class XScratchPool {
 public:
  std::unique_ptr<XTileScratch> take();
  void give(std::unique_ptr<XTileScratch> scratch);

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<XTileScratch>> free_ PENSTOCK_GUARDED_BY(mutex_);
};

class XUnitDecode final : public UnitDecode {
 public:
  /// `keep_alive` owns the objects that the context refers to. `tiles` by fragment, then number.
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

  /// Bytes held now without scratch. XReader::in_flight_bytes must have counted them.
  uint64_t memory_bytes() const;

 private:
  /// Reads of one file of a fragment, for a sequence of tiles.
  struct PartReads {
    XPart part;
    size_t tile_begin;
    std::vector<io::ByteRange> wanted;  ///< by tile
    io::CoalescedReads plan;
  };
  PartReads plan_part(XPart part, size_t tile_begin, size_t tile_end,
                      const io::CoalescingOptions& options) const;
  std::byte* place_reads(const PartReads& part, std::byte* next,
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
  std::vector<size_t> task_begins_;  // by task of phase 0: its first tile
  Buffer stored_;                    // stored bytes of all tiles, reused by later units
  size_t read_count_ = 0;
  std::vector<XTileStage> stages_;  // by tile
  std::vector<XTileStage> merged_;  // by task of phase 4
  XRowIndex index_;
  std::atomic<uint64_t> bytes_read_{0};
};

}  // namespace penstock::format::soma
