#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pipeline/memory/mapped_region.h"
#include "pipeline/memory/memory_meter.h"

// The memory of batches: blocks that are used again when the consumer drops its batch, so that no
// page is cleared by the kernel twice. Lives as long as the loader or the last batch, whichever is
// longer. Any thread.

namespace penstock::pipeline {

class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  /// Blocks that wait to be used again are freed first when the pool would pass `limit_bytes`.
  BatchPool(uint64_t limit_bytes, std::shared_ptr<MemoryMeter> meter);
  ~BatchPool();

  /// At least `bytes`, 64-byte aligned, contents undefined; reserve() comes first. The last
  /// reference to `owner` gives it back.
  struct Block {
    std::byte* data = nullptr;
    size_t capacity = 0;
    std::shared_ptr<void> owner;
  };
  Block take(size_t bytes);

  /// Sets room aside for one take() of `bytes`. False when that would pass the limit, with the
  /// blocks in use now; `force` does it all the same.
  bool reserve(size_t bytes, bool force);

  /// The loader ends: idle blocks are freed, blocks in use when they come back. `on_release` is
  /// not called any more once this returns.
  void close();
  /// Called after a block came back, by whoever dropped it; may take locks that are not held while
  /// a block is dropped.
  void set_on_release(std::function<void()> on_release);

  static size_t block_bytes(size_t bytes) noexcept;

 private:
  struct Owner;
  MappedRegion take_idle(size_t bytes, size_t wanted);
  void give_back(MappedRegion region);

  const uint64_t limit_bytes_;
  const int process_id_;  ///< after a fork locks may be held for ever: blocks are only unmapped
  const std::shared_ptr<MemoryMeter> meter_;
  mutable std::mutex mutex_;
  std::vector<MappedRegion> idle_;
  uint64_t mapped_bytes_ = 0;  ///< all blocks, idle or in use
  uint64_t used_bytes_ = 0;    ///< blocks in use, and room set aside
  bool closed_ = false;
  std::mutex release_mutex_;
  std::function<void()> on_release_;
};

}  // namespace penstock::pipeline
