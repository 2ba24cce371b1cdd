#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/hash/hash64.h"

// Our own random numbers: counter-based (value i of a stream is a hash of key and i), integers
// only, so a plan is the same on every machine and in any order of evaluation. The distributions of
// the standard library differ between vendors and are not used.
//
//   random_key      a key from a seed and what the numbers are for
//   RandomStream    numbers in sequence, unbiased below a bound
//   KeyedPermutation  a permutation of [0, n) evaluated point by point, without memory

namespace penstock::plan {

/// Purpose of a key: streams of different purpose never meet.
enum class Purpose : uint64_t {
  kUnitOrder = 1,
  kUnitRows,
  kBucketRows,
  kDeal,
  kPadding,
  kSplit,
  kUnitDraws,
  kRowDraws,
  kRowKeys,
  kGlobalOrder,
  kUnitParts,
  kFirstParts
};

constexpr uint64_t random_key(uint64_t seed, uint64_t epoch, Purpose purpose) noexcept {
  return hash_combine(hash_combine(mix64(seed + kGoldenRatio64), epoch),
                      static_cast<uint64_t>(purpose));
}

class RandomStream {
 public:
  explicit constexpr RandomStream(uint64_t key) noexcept : key_(key) {}

  constexpr uint64_t next() noexcept { return hash_combine(key_, counter_++); }

  /// Uniform in [0, bound), bound > 0: the upper word of a product, rejecting the few lower words
  /// that would favour some results (D. Lemire, "Fast random integer generation in an interval",
  /// 2019).
  constexpr uint64_t below(uint64_t bound) noexcept {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t reject = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < reject) {
        product = static_cast<unsigned __int128>(next()) * bound;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

/// A pseudo-random permutation of [0, size). Up to kTableSize it is a shuffled table, exactly
/// uniform; above, a Feistel network on Z_a x Z_b with a b barely above size, so that the walk that
/// brings a value back into range is almost never taken. About 20 ns a value.
class KeyedPermutation {
 public:
  static constexpr uint64_t kTableSize = 16;  ///< below, six rounds would not do

  KeyedPermutation() = default;
  KeyedPermutation(uint64_t key, uint64_t size) noexcept : size_(size) {
    if (size <= kTableSize) {
      fill_table(key);
      return;
    }
    left_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(size)));
    while (left_ * left_ < size) ++left_;
    right_ = (size + left_ - 1) / left_;
    for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = mix64(key + (i + 1) * kGoldenRatio64);
  }

  uint64_t size() const noexcept { return size_; }

  uint64_t operator()(uint64_t index) const noexcept {
    if (size_ <= kTableSize) return table_[static_cast<size_t>(index)];
    do index = encrypt(index);
    while (index >= size_);
    return index;
  }

 private:
  static constexpr size_t kRounds = 6;

  void fill_table(uint64_t key) noexcept {
    RandomStream random(key);
    for (uint64_t i = 0; i < size_; ++i) {
      const auto other = static_cast<size_t>(random.below(i + 1));
      table_[static_cast<size_t>(i)] = table_[other];
      table_[other] = static_cast<uint8_t>(i);
    }
  }

  /// A hash of `half` in [0, bound); bound < 2^32. The bias, bound / 2^32, is not of interest here.
  static uint64_t round(uint64_t half, uint64_t key, uint64_t bound) noexcept {
    uint64_t h = (half ^ key) * 0xd6e8feb86659fd93;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93;
    return ((h >> 32) * bound) >> 32;
  }

  uint64_t encrypt(uint64_t index) const noexcept {
    uint64_t l, r;
    if (index <= UINT32_MAX && right_ <= UINT32_MAX) {  // 32-bit division is much the faster
      l = static_cast<uint32_t>(index) / static_cast<uint32_t>(right_);
      r = static_cast<uint32_t>(index) % static_cast<uint32_t>(right_);
    } else {
      l = index / right_;
      r = index % right_;
    }
    for (size_t i = 0; i < kRounds; i += 2) {
      l += round(r, keys_[i], left_);
      if (l >= left_) l -= left_;
      r += round(l, keys_[i + 1], right_);
      if (r >= right_) r -= right_;
    }
    return l * right_ + r;
  }

  uint64_t size_ = 0;
  uint64_t left_ = 1, right_ = 1;
  std::array<uint64_t, kRounds> keys_{};
  std::array<uint8_t, kTableSize> table_{};
};

}  // namespace penstock::plan
