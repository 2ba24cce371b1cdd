#include "plan/memory/occupancy.h"

#include <algorithm>

#include "plan/epoch_plan.h"

namespace penstock::plan {

size_t head_visits(std::span<const Visit> visits, uint32_t spread, uint64_t prefill_rows) {
  if (spread >= visits.size()) return visits.size();
  uint64_t rows = 0;
  size_t head = 0;
  while (head < std::max(1u, spread / 2) && (head == 0 || rows < prefill_rows)) {
    rows += visits[head++].row_count();
  }
  return head;
}

BytesPlayed::BytesPlayed(std::span<const Visit> visits) : bytes_before_{0} {
  bytes_before_.reserve(visits.size() + 1);
  for (const Visit& visit : visits) {
    bytes_before_.push_back(bytes_before_.back() + visit.packed_bytes);
  }
}

uint64_t BytesPlayed::peak(uint32_t spread, size_t head, std::span<const uint32_t> reach,
                           uint32_t units_ahead, uint64_t page_bytes) const {
  const size_t visits = bytes_before_.size() - 1;
  if (visits == 0) return 0;
  const size_t last = visits - 1;
  unsigned __int128 left_parts =
      0;  // of 1 / spread byte, in raw buckets before the one that leaves
  uint64_t peak = 0;
  size_t raw = 0;
  for (size_t bucket_last = head - 1; bucket_last <= last; ++bucket_last) {
    const size_t first_raw = bucket_last == head - 1 ? 0 : bucket_last;
    for (; raw < first_raw; ++raw) {
      left_parts += bytes_before_[raw + 1] - bytes_before_[raw < spread ? 0 : raw - spread + 1];
    }
    const uint32_t needed = std::max(reach[bucket_last - (head - 1)], 1U);
    const size_t read = std::min(bucket_last + needed + units_ahead, last);
    const uint64_t bytes = bytes_before_[read + 1] - static_cast<uint64_t>(left_parts / spread);
    // The bucket that leaves, and those up to the last one that a visit read so far feeds.
    const uint64_t open = std::min(read + spread - 1, last) - bucket_last + 1;
    peak = std::max(peak, bytes + open * page_bytes);
  }
  return peak;
}

uint64_t BytesPlayed::peak(std::span<const size_t> bucket_visits, std::span<const uint32_t> reach,
                           uint32_t units_ahead, uint64_t page_bytes) const {
  const size_t visits = bytes_before_.size() - 1;
  uint64_t peak = 0;
  for (size_t bucket = 0; bucket + 1 < bucket_visits.size(); ++bucket) {
    const size_t last = bucket_visits[bucket + 1] - 1;
    const size_t read = std::min(last + std::max(reach[bucket], 1U) + units_ahead, visits - 1);
    const auto open_end = std::upper_bound(bucket_visits.begin(), bucket_visits.end() - 1, read);
    const auto open =
        static_cast<uint64_t>(open_end - bucket_visits.begin()) - static_cast<uint64_t>(bucket);
    const uint64_t bytes = bytes_before_[read + 1] - bytes_before_[bucket_visits[bucket]];
    peak = std::max(peak, bytes + open * page_bytes);
  }
  return peak;
}

}  // namespace penstock::plan
