#include "pipeline/memory/bucket_store.h"

#include <algorithm>

namespace penstock::pipeline {

BucketStore::BucketStore(const plan::EpochPlan& plan, uint64_t capacity_bytes, uint32_t page_bytes,
                         MemoryMeter& meter)
    : plan_(plan),
      meter_(meter),
      pool_(capacity_bytes, page_bytes, meter),
      buckets_(plan.bucket_count()) {}

BucketStore::~BucketStore() {
  for (const auto& bucket : buckets_) {
    if (bucket != nullptr) meter_.subtract(bucket->row_count * sizeof(PackedRowRef));
  }
}

BucketStore::Bucket& BucketStore::open(size_t index) {
  if (buckets_[index] == nullptr) {
    auto bucket = std::make_unique<Bucket>();
    bucket->row_count = plan_.bucket_begin(index + 1) - plan_.bucket_begin(index);
    bucket->rows = std::make_unique_for_overwrite<PackedRowRef[]>(bucket->row_count);
    meter_.add(bucket->row_count * sizeof(PackedRowRef));
    buckets_[index] = std::move(bucket);
  }
  return *buckets_[index];
}

std::byte* BucketStore::allocate(Bucket& bucket, size_t bytes,
                                 std::vector<std::span<std::byte>>& spilled) {
  if (bytes > pool_.page_bytes()) {
    bucket.large.push_back(pool_.take_large(bytes));
    const PagePool::Large& large = bucket.large.back();
    if (large.spilled != 0) spilled.emplace_back(large.data, large.spilled);
    return large.data;
  }
  if (bytes > bucket.left) {
    bucket.cursor = pool_.take();
    bucket.pages.push_back(bucket.cursor);
    bucket.left = pool_.page_bytes();
  }
  std::byte* const page = bucket.pages.back();
  if (pool_.is_spilled(page) && (spilled.empty() || spilled.back().data() != page)) {
    spilled.emplace_back(page, pool_.page_bytes());
  }
  std::byte* const destination = bucket.cursor;
  bucket.cursor += bytes;
  bucket.left -= bytes;
  return destination;
}

void BucketStore::reserve(std::span<ArrivingRow> rows, std::vector<std::span<std::byte>>& spilled) {
  const MutexLock lock(mutex_);
  const ArrivingRow* before = nullptr;
  size_t before_index = 0;
  for (ArrivingRow& row : rows) {
    const size_t index = plan_.bucket_of(row.slot);
    Bucket& bucket = open(index);
    PackedRowRef& place = bucket.rows[row.slot - plan_.bucket_begin(index)];
    if (row.kept.record != nullptr) {
      place = {row.kept.record, row.position, row.joinid, row.nnz, row.kept.stored_bytes};
      continue;
    }
    const bool again =
        before != nullptr && before_index == index && before->position == row.position;
    row.destination = again ? before->destination : allocate(bucket, row.bytes, spilled);
    before = &row;
    before_index = index;
    place = {row.destination, row.position, row.joinid, row.nnz, 0};
  }
}

template <typename Visit>
void BucketStore::for_each_run(uint64_t begin, uint64_t end, Visit&& visit) const {
  size_t index = begin < end ? plan_.bucket_of(begin) : 0;
  while (begin < end) {
    const uint64_t bucket_begin = plan_.bucket_begin(index);
    const uint64_t run_end = std::min(end, plan_.bucket_begin(index + 1));
    if (run_end > begin) {
      const PackedRowRef* const rows = buckets_[index]->rows.get();
      visit(std::span(rows + (begin - bucket_begin), rows + (run_end - bucket_begin)));
      begin = run_end;
    }
    ++index;
  }
}

void BucketStore::rows(uint64_t begin, uint64_t end, std::vector<PackedRowRef>& out) const {
  out.clear();
  out.reserve(end - begin);
  for_each_run(begin, end, [&](auto run) { out.insert(out.end(), run.begin(), run.end()); });
}

uint64_t BucketStore::nnz(uint64_t begin, uint64_t end) const {
  uint64_t total = 0;
  for_each_run(begin, end, [&](auto run) {
    for (const PackedRowRef& row : run) total += row.nnz;
  });
  return total;
}

void BucketStore::release_before(uint64_t slot) {
  const MutexLock lock(mutex_);
  while (first_bucket_ < buckets_.size() && plan_.bucket_begin(first_bucket_ + 1) <= slot) {
    if (const auto bucket = std::move(buckets_[first_bucket_])) {
      for (std::byte* const page : bucket->pages) pool_.give_back(page);
      for (PagePool::Large& large : bucket->large) pool_.give_back_large(std::move(large));
      meter_.subtract(bucket->row_count * sizeof(PackedRowRef));
    }
    ++first_bucket_;
  }
}

uint64_t BucketStore::spilled_bytes() const {
  const MutexLock lock(mutex_);
  return pool_.spilled_bytes();
}

}  // namespace penstock::pipeline
