#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Simulates the memory of an epoch, bucket by bucket, without placing a row.
//
// While a bucket leaves, memory holds all rows that were read and have not left: visits up to the
// last one that its batches need (batch_cut.h), or the one after its own, and `units_ahead` more,
// less the buckets before. A visit's bytes are counted in equal parts for its K buckets, although
// rows differ in size and the sizes are estimates.

namespace penstock::plan {

struct Visit;

/// Number of raw buckets that leave together at the start: visits until `prefill_rows` are read,
/// but at most half of those that are open later. All visits if spread is their number.
size_t head_visits(std::span<const Visit> visits, uint32_t spread, uint64_t prefill_rows);

class BytesPlayed {
 public:
  explicit BytesPlayed(std::span<const Visit> visits);
  uint64_t total() const noexcept { return bytes_before_.back(); }

  /// Peak with `page_bytes` more for each open bucket. `reach` by bucket. O(visits).
  uint64_t peak(uint32_t spread, size_t head, std::span<const uint32_t> reach, uint32_t units_ahead,
                uint64_t page_bytes) const;
  /// The same if bucket b has the whole visits from bucket_visits[b] to bucket_visits[b + 1].
  uint64_t peak(std::span<const size_t> bucket_visits, std::span<const uint32_t> reach,
                uint32_t units_ahead, uint64_t page_bytes) const;

 private:
  std::vector<uint64_t> bytes_before_;  ///< visits + 1
};

}  // namespace penstock::plan
