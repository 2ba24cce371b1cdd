#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/memory/mapped_region.h"
#include "base/threads/mutex.h"
#include "pipeline/memory/memory_meter.h"

// The memory of batches. Blocks are reused after the consumer drops its batch, so the kernel clears
// no page twice. The pool lives as long as the loader or the last batch, whichever is longer. Any
// thread.

namespace penstock::pipeline {

class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  /// If the pool would exceed `limit_bytes`, idle blocks are freed first.
  BatchPool(uint64_t limit_bytes, std::shared_ptr<MemoryMeter> meter);
  ~BatchPool();

  /// A block of at least `bytes`, 64-byte aligned, contents undefined. Call reserve() first. The
  /// block returns to the pool with the last reference to `owner`.
  struct Block {
    std::byte* data = nullptr;
    size_t capacity = 0;
    std::shared_ptr<void> owner;
  };
  Block take(size_t bytes);

  /// Reserves room for one take() of `bytes`. Returns false if that and the blocks in use now would
  /// exceed the limit, unless `force` is set.
  bool reserve(size_t bytes, bool force);

  /// Ends the loader's use: idle blocks are freed now, blocks in use when they are returned.
  /// `on_release` is not called after this returns.
  void close();
  /// Sets the function that is called after a block returns, in the thread that dropped it. It may
  /// take locks that are not held while a block is dropped.
  void set_on_release(std::function<void()> on_release);

  static size_t block_bytes(size_t bytes) noexcept;

 private:
  struct Owner;
  MappedRegion take_idle(size_t bytes, size_t wanted);
  void give_back(MappedRegion region) PENSTOCK_EXCLUDES(mutex_, release_mutex_);

  const uint64_t limit_bytes_;
  const int process_id_;  ///< after a fork, locks may be held for ever: blocks are only unmapped
  const std::shared_ptr<MemoryMeter> meter_;
  mutable Mutex mutex_;
  std::vector<MappedRegion> idle_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t mapped_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< all blocks, idle or in use
  uint64_t used_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;    ///< blocks in use, and reserved room
  bool closed_ PENSTOCK_GUARDED_BY(mutex_) = false;
  Mutex release_mutex_;
  std::function<void()> on_release_ PENSTOCK_GUARDED_BY(release_mutex_);
};

}  // namespace penstock::pipeline
