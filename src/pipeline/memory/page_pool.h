#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/mapped_region.h"
#include "pipeline/memory/memory_meter.h"
#include "pipeline/memory/spill_file.h"

// The memory of packed rows: pages of one size from one mapped arena, and single allocations for
// rows larger than a page. Returned memory is reused, and the arena never holds more than its
// capacity. Memory beyond that comes from a spill file, whose bytes are counted separately.
//
// One thread at a time (BucketStore's lock).

namespace penstock::pipeline {

class PagePool {
 public:
  /// `page_bytes` is a power of two, at least 4 KiB. The arena costs nothing until it is used.
  PagePool(uint64_t capacity_bytes, uint32_t page_bytes, MemoryMeter& meter);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  uint32_t page_bytes() const noexcept { return page_bytes_; }
  uint64_t capacity_bytes() const noexcept { return capacity_bytes_; }

  /// Throws ResourceExhausted that names capacity and need if even spilling fails.
  std::byte* take();
  void give_back(std::byte* page);

  struct Large {
    std::byte* data = nullptr;
    MappedRegion region;   ///< empty if the bytes are in the spill file
    uint64_t spilled = 0;  ///< bytes in the spill file, if they are there
  };
  /// Returns `bytes` in one piece, for a row that does not fit into a page.
  Large take_large(size_t bytes);
  void give_back_large(Large large);

  bool is_spilled(const std::byte* page) const noexcept { return !arena_.contains(page); }
  uint64_t spilled_bytes() const noexcept { return spill_.size(); }  ///< most at any time
  uint64_t used_bytes() const noexcept { return used_bytes_; }

 private:
  std::byte* spill(size_t bytes);
  void release_idle(uint64_t needed);

  uint32_t page_bytes_;
  uint64_t capacity_bytes_;
  MemoryMeter& meter_;
  MappedRegion arena_;
  uint64_t touched_pages_ = 0;       ///< arena pages ever handed out
  uint64_t resident_bytes_ = 0;      ///< arena pages that hold memory, and large rows
  uint64_t used_bytes_ = 0;          ///< in use now, spilled bytes included
  std::vector<std::byte*> free_;     ///< arena pages that hold memory
  std::vector<std::byte*> dropped_;  ///< arena pages whose memory was released for a large row
  std::vector<std::byte*> spilled_free_;
  std::vector<Large> large_spilled_free_;
  SpillFile spill_;
};

}  // namespace penstock::pipeline
