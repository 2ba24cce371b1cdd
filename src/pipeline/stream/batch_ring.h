#pragma once

#include <penstock/loader.h>

#include <cstdint>
#include <memory>
#include <vector>

// The batches between the workers and the consumer: several threads make them at once, and they are
// delivered in order. A ring of fixed depth; the caller's lock guards it.

namespace penstock::pipeline {

class BatchRing {
 public:
  /// Starts with batch `first`, as if the batches before had been delivered.
  BatchRing(uint64_t batch_count, uint32_t depth, uint64_t first = 0)
      : batch_count_(batch_count),
        claimed_(first),
        made_(first),
        delivered_(first),
        slots_(depth) {}

  /// Call before any batch is claimed. `batches` must not be less than `first`.
  void set_batch_count(uint64_t batches) noexcept { batch_count_ = batches; }
  uint64_t batch_count() const noexcept { return batch_count_; }

  /// Whether there is a next batch to claim and the ring has a place for it.
  bool can_claim() const noexcept {
    return claimed_ < batch_count_ && claimed_ - delivered_ < slots_.size();
  }
  uint64_t next_to_claim() const noexcept { return claimed_; }
  uint64_t claim() noexcept { return claimed_++; }
  bool all_claimed() const noexcept { return claimed_ == batch_count_; }
  bool all_made() const noexcept { return made_ == batch_count_; }

  /// Stores a finished batch. Returns true if the consumer waits for this batch.
  bool finish(uint64_t index, std::shared_ptr<const Batch> batch) {
    slots_[index % slots_.size()] = std::move(batch);
    ++made_;
    return index == delivered_;
  }

  bool ready() const noexcept {
    return delivered_ < claimed_ && slots_[delivered_ % slots_.size()] != nullptr;
  }
  std::shared_ptr<const Batch> take() { return std::move(slots_[delivered_++ % slots_.size()]); }
  uint64_t delivered() const noexcept { return delivered_; }
  bool at_end() const noexcept { return delivered_ == batch_count_; }
  /// True if no batch is finished or being made: the batch that the consumer needs has not been
  /// started.
  bool idle() const noexcept { return claimed_ == delivered_; }

  /// Takes the batches that were not delivered. Drop them without the caller's lock, as that wakes
  /// others.
  std::vector<std::shared_ptr<const Batch>> take_all() {
    std::vector<std::shared_ptr<const Batch>> taken(slots_.size());
    taken.swap(slots_);
    return taken;
  }

 private:
  uint64_t batch_count_;
  uint64_t claimed_;
  uint64_t made_;
  uint64_t delivered_;
  std::vector<std::shared_ptr<const Batch>> slots_;
};

}  // namespace penstock::pipeline
