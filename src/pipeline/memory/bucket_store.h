#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/mutex.h"
#include "format/matrix_source.h"
#include "pipeline/memory/memory_meter.h"
#include "pipeline/memory/packed_row_ref.h"
#include "pipeline/memory/page_pool.h"
#include "plan/epoch_plan.h"

// Holds the rows of an epoch until their batch is made: for each bucket a table of slots and the
// pages with the packed rows. A bucket's memory is allocated when its first row arrives and freed
// when all its rows have left.
//
//   store.reserve(rows, spilled); addresses for the rows of one visit, under one lock
//   … pack each row to row.destination, any threads; then drop_resident() what was spilled …
//   store.rows(begin, end, out)   once the visits that feed those slots are done
//   store.release_before(slot)    once the batches before `slot` are made
//
// The scheduler knows which visits are done and must read rows only then.

namespace penstock::pipeline {

/// A row that is about to arrive.
struct ArrivingRow {
  uint64_t slot = 0;
  int64_t position = 0;
  int64_t joinid = 0;
  uint32_t nnz = 0;
  size_t bytes = 0;                  ///< to be packed; 0 for a row that stays in memory elsewhere
  std::byte* destination = nullptr;  ///< filled in by reserve()
  format::KeptRecord kept;           ///< where such a row is
};

class BucketStore {
 public:
  BucketStore(const plan::EpochPlan& plan, uint64_t capacity_bytes, uint32_t page_bytes,
              MemoryMeter& meter);
  ~BucketStore();

  /// A row that occurs several times in a bucket, one after the other, gets the same destination
  /// each time. `spilled` gets the pages of the rows that lie in the spill file.
  void reserve(std::span<ArrivingRow> rows, std::vector<std::span<std::byte>>& spilled);

  /// Returns the rows in slots [begin, end), which must all have arrived. Valid until
  /// release_before(end).
  void rows(uint64_t begin, uint64_t end, std::vector<PackedRowRef>& out) const;
  uint64_t nnz(uint64_t begin, uint64_t end) const;

  /// Frees the buckets that end at or before `slot`.
  void release_before(uint64_t slot);

  uint64_t spilled_bytes() const;

 private:
  struct Bucket {
    std::unique_ptr<PackedRowRef[]> rows;
    uint64_t row_count = 0;
    std::vector<std::byte*> pages;
    std::vector<PagePool::Large> large;
    std::byte* cursor = nullptr;
    size_t left = 0;
  };

  Bucket& open(size_t index) PENSTOCK_REQUIRES(mutex_);
  std::byte* allocate(Bucket& bucket, size_t bytes, std::vector<std::span<std::byte>>& spilled)
      PENSTOCK_REQUIRES(mutex_);
  template <typename Visit>
  void for_each_run(uint64_t begin, uint64_t end, Visit&& visit) const;

  const plan::EpochPlan& plan_;
  MemoryMeter& meter_;
  mutable Mutex mutex_;
  PagePool pool_ PENSTOCK_GUARDED_BY(mutex_);
  /// Written under mutex_. rows() and nnz() read it without: their buckets are complete, and stay
  /// until release_before().
  std::vector<std::unique_ptr<Bucket>> buckets_;
  size_t first_bucket_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::pipeline
