#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "pipeline/memory/memory_meter.h"
#include "pipeline/memory/packed_row_ref.h"
#include "pipeline/memory/page_pool.h"
#include "plan/epoch_plan.h"

// Where the rows of an epoch wait for their batch: by bucket, a table of slots and the pages that
// hold the packed rows. A bucket's memory is taken when the first row comes and freed when all its
// rows have left.
//
//   store.reserve(rows, spilled); addresses for the rows of one visit, under one lock
//   … pack each row to row.destination, any threads; then drop_resident() what was spilled …
//   store.rows(begin, end, out)   once the visits that feed those slots are done
//   store.release_before(slot)    once the batches before `slot` are made
//
// Which visits are done, and that rows are read only then, is the scheduler's business.

namespace penstock::pipeline {

/// A row that is about to come.
struct ArrivingRow {
  uint64_t slot = 0;
  int64_t position = 0;
  int64_t joinid = 0;
  uint32_t nnz = 0;
  size_t bytes = 0;
  std::byte* destination = nullptr;  ///< filled in by reserve()
};

class BucketStore {
 public:
  BucketStore(const plan::EpochPlan& plan, uint64_t capacity_bytes, uint32_t page_bytes,
              MemoryMeter& meter);
  ~BucketStore();

  /// A row that comes several times in a bucket, one after the other, gets the same destination
  /// each time. `spilled` gets the pages in the spill file that the rows are in.
  void reserve(std::span<ArrivingRow> rows, std::vector<std::span<std::byte>>& spilled);

  /// The rows in slots [begin, end), which must all have come. Valid until release_before(end).
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

  Bucket& open(size_t index);
  std::byte* allocate(Bucket& bucket, size_t bytes, std::vector<std::span<std::byte>>& spilled);
  template <typename Visit>
  void for_each_run(uint64_t begin, uint64_t end, Visit&& visit) const;

  const plan::EpochPlan& plan_;
  MemoryMeter& meter_;
  mutable std::mutex mutex_;
  PagePool pool_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  size_t first_bucket_ = 0;
};

}  // namespace penstock::pipeline
