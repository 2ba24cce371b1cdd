#include "plan/cut/apportion.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>

#include "base/concat.h"

namespace penstock::plan {

Apportion::Apportion(std::span<const uint64_t> quotas)
    : quotas_(quotas.begin(), quotas.end()),
      given_(quotas.size()),
      counts_(quotas.size()),
      by_claim_(quotas.size()) {
  for (const uint64_t quota : quotas_) total_ += quota;
  std::iota(by_claim_.begin(), by_claim_.end(), 0u);
}

// A taker's due after `dealt` rows is quota * dealt / total, a fraction. Each taker first gets its
// due rounded down (if the lot is too small for all, the neediest first), then its due rounded up.
// No taker gets more, and the dues rounded up always suffice for the lot. At the end dues are whole
// numbers, so all takers have their quota.
std::span<const uint64_t> Apportion::deal(uint64_t lot) {
  if (lot > total_ - dealt_) {
    throw Internal(concat("lots exceed the quotas: ", dealt_, " + ", lot, " of ", total_));
  }
  std::fill(counts_.begin(), counts_.end(), 0);
  if (lot == 0) return counts_;
  dealt_ += lot;
  using Wide = unsigned __int128;
  const auto due = [&](size_t i) { return Wide{quotas_[i]} * dealt_; };
  const auto claim = [&](size_t i) {
    return static_cast<__int128>(due(i)) - static_cast<__int128>(Wide{given_[i]} * total_);
  };
  for (size_t i = 0; i < by_claim_.size(); ++i) by_claim_[i] = static_cast<uint32_t>(i);
  std::stable_sort(by_claim_.begin(), by_claim_.end(),
                   [&](uint32_t a, uint32_t b) { return claim(a) > claim(b); });
  uint64_t left = lot;
  const auto raise_to = [&](size_t i, uint64_t level) {
    if (level <= given_[i]) return;
    const uint64_t count = std::min(left, level - given_[i]);
    given_[i] += count;
    counts_[i] += count;
    left -= count;
  };
  for (const uint32_t i : by_claim_) raise_to(i, static_cast<uint64_t>(due(i) / total_));
  for (const uint32_t i : by_claim_) {
    raise_to(i, static_cast<uint64_t>((due(i) + total_ - 1) / total_));
  }
  return counts_;
}

}  // namespace penstock::plan
