#include "plan/order/row_permutation.h"

#include <cmath>
#include <utility>

namespace penstock::plan {

RowPermutation::RowPermutation(uint64_t key, uint64_t size) : size_(size) {
  if (size < kTableSize) {
    RandomStream random(key);
    positions_.resize(static_cast<size_t>(size));
    for (size_t i = 0; i < positions_.size(); ++i) {
      const auto other = static_cast<size_t>(random.below(uint64_t{i} + 1));
      positions_[i] = positions_[other];
      positions_[other] = static_cast<uint16_t>(i);
    }
    slots_.resize(positions_.size());
    for (size_t i = 0; i < slots_.size(); ++i) slots_[positions_[i]] = static_cast<uint16_t>(i);
    return;
  }
  left_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(size)));
  while (left_ * left_ < size) ++left_;
  right_ = (size + left_ - 1) / left_;
  for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = mix64(key + (i + 1) * kGoldenRatio64);
}

}  // namespace penstock::plan
