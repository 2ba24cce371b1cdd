#include "plan/cut/bucket_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/random.h"

namespace penstock::plan {

namespace {

// Turns counts into running sums, in place.
std::vector<uint64_t> running_sums(std::vector<uint64_t> counts) {
  counts.push_back(0);
  uint64_t sum = 0;
  for (uint64_t& entry : counts) {
    const uint64_t count = entry;
    entry = sum;
    sum += count;
  }
  return counts;
}

}  // namespace

BucketLayout::BucketLayout(std::vector<uint64_t> row_counts, std::vector<size_t> bucket_visits)
    : bucket_visits_(std::move(bucket_visits)), rows_before_(running_sums(std::move(row_counts))) {}

BucketLayout::BucketLayout(std::vector<uint64_t> row_counts, uint32_t spread, size_t head,
                           uint64_t key)
    : spread_(std::max(spread, 1u)),
      head_(head),
      rows_before_(running_sums(std::move(row_counts))) {
  const size_t visits = visit_count();
  if (visits == 0) return;

  class_place_.resize(spread_);
  std::iota(class_place_.begin(), class_place_.end(), 0u);
  RandomStream random(key);
  for (size_t i = spread_; i > 1; --i)
    std::swap(class_place_[i - 1], class_place_[random.below(i)]);
  std::vector<uint32_t> place_class(spread_);
  for (uint32_t i = 0; i < spread_; ++i) place_class[class_place_[i]] = i;

  raw_begin_.resize(visits + spread_);
  for (size_t raw = 0; raw + 1 < raw_begin_.size(); ++raw) {
    const uint64_t row_class = place_class[raw % spread_];
    const uint64_t first = rows_before_[first_visit(raw)];
    const uint64_t end = rows_before_[std::min(raw + 1, visits)];
    raw_begin_[raw + 1] =
        raw_begin_[raw] + rows_of_class(end, row_class) - rows_of_class(first, row_class);
  }
}

}  // namespace penstock::plan
