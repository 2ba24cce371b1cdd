#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

// Deals the rows of an epoch's visits to buckets.
//
// A ring of K buckets is open at any time: visit i closes bucket i-1 and opens bucket i+K-1. Rows
// are dealt around the ring one by one, in the order of visits. Each visit continues where the
// visit before stopped, and the ring's places are in a random order. So a visit's rows lie evenly
// in its K buckets (to a row), and a bucket takes its rows evenly from its K visits. The place of a
// row is a division: row number n (counted over all visits) goes to the open bucket whose *class*
// is n mod K. Its rank there is the number of rows of that class in the bucket's earlier visits.
//
// These are *raw* buckets. The first `head` of them leave together, so that the first batch is
// mixed. Those from the last visit on, when all rows are in memory, also leave together. If head is
// the number of visits, there is one bucket, whose permutation is uniform over all rows.

namespace penstock::plan {

class BucketLayout {
 public:
  BucketLayout() = default;

  /// `row_counts`: rows of each visit. 1 <= spread <= visits, 1 <= head <= visits (both 0 without
  /// visits). O(visits).
  BucketLayout(std::vector<uint64_t> row_counts, uint32_t spread, size_t head, uint64_t key);

  /// Buckets of whole visits: bucket b has visits [bucket_visits[b], bucket_visits[b + 1]).
  BucketLayout(std::vector<uint64_t> row_counts, std::vector<size_t> bucket_visits);

  size_t visit_count() const noexcept { return rows_before_.size() - 1; }
  uint64_t row_count() const noexcept { return rows_before_.back(); }
  uint64_t rows_before(size_t visit) const noexcept { return rows_before_[visit]; }

  /// Number of buckets as they leave.
  size_t bucket_count() const noexcept {
    if (!bucket_visits_.empty()) return bucket_visits_.size() - 1;
    return visit_count() == 0 ? 0 : visit_count() - head_ + 1;
  }
  uint64_t bucket_begin(size_t bucket) const noexcept {
    if (!bucket_visits_.empty()) return rows_before_[bucket_visits_[bucket]];
    return bucket == 0 ? 0 : raw_begin_[raw_end(bucket - 1)];
  }
  size_t last_visit(size_t bucket) const noexcept {
    return bucket_visits_.empty() ? head_ - 1 + bucket : bucket_visits_[bucket + 1] - 1;
  }
  /// The first visit with rows in a bucket; later buckets have none of earlier visits either.
  size_t earliest_visit(size_t bucket) const noexcept {
    if (!bucket_visits_.empty()) return bucket_visits_[bucket];
    return bucket == 0 ? 0 : first_visit(raw_end(bucket - 1));
  }

  /// The last bucket with rows of a visit.
  size_t last_bucket(size_t visit) const noexcept {
    return bucket_visits_.empty() ? merged(visit + spread_ - 1) : bucket_of_visit(visit);
  }

  /// Calls `row(index, bucket, rank)` for each row of a visit: index in [0, its rows), rank within
  /// the bucket before any permutation. Rows of a bucket come together.
  template <typename Row>
  void deal(size_t visit, Row&& row) const {
    const uint64_t begin = rows_before_[visit], count = rows_before_[visit + 1] - begin;
    if (!bucket_visits_.empty()) {
      const size_t bucket = bucket_of_visit(visit);
      const uint64_t rank = begin - bucket_begin(bucket);
      for (uint64_t index = 0; index < count; ++index) row(index, bucket, rank + index);
      return;
    }
    const uint64_t step = spread_;
    uint64_t row_class = begin % step;
    for (uint64_t first = 0; first < count && first < step; ++first) {
      const size_t raw = raw_bucket(visit, class_place_[row_class]);
      const size_t bucket = merged(raw);
      uint64_t rank = raw_begin_[raw] - bucket_begin(bucket) + rows_of_class(begin, row_class) -
                      rows_of_class(rows_before_[first_visit(raw)], row_class);
      for (uint64_t index = first; index < count; index += step) row(index, bucket, rank++);
      if (++row_class == step) row_class = 0;
    }
  }

 private:
  size_t bucket_of_visit(size_t visit) const noexcept {
    const auto after = std::upper_bound(bucket_visits_.begin(), bucket_visits_.end(), visit);
    return static_cast<size_t>(after - bucket_visits_.begin()) - 1;
  }
  /// Rows of a class among the first `rows` of the epoch.
  uint64_t rows_of_class(uint64_t rows, uint64_t row_class) const noexcept {
    return (rows + spread_ - 1 - row_class) / spread_;
  }
  size_t first_visit(size_t raw) const noexcept { return raw < spread_ ? 0 : raw - spread_ + 1; }
  size_t raw_bucket(size_t visit, size_t place) const noexcept {
    const size_t own = visit % spread_;
    return visit + (place >= own ? place - own : place + spread_ - own);
  }
  size_t merged(size_t raw) const noexcept {
    const size_t last = visit_count() - 1;
    return (raw < head_ ? head_ - 1 : raw > last ? last : raw) - (head_ - 1);
  }
  /// One past the last raw bucket that leaves with `bucket`.
  size_t raw_end(size_t bucket) const noexcept {
    return bucket + 1 == bucket_count() ? raw_begin_.size() - 1 : head_ + bucket;
  }

  uint32_t spread_ = 1;
  size_t head_ = 1;
  std::vector<size_t> bucket_visits_;        ///< buckets of whole visits; else empty
  std::vector<uint64_t> rows_before_ = {0};  ///< visits + 1
  std::vector<uint64_t> raw_begin_ = {0};    ///< raw buckets + 1
  std::vector<uint32_t> class_place_;        ///< class -> place in the ring (raw bucket mod K)
};

}  // namespace penstock::plan
