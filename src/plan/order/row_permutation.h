#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/random.h"

// A permutation of [0, size) that is computed, not stored: the order of a global shuffle.
//
//   RowPermutation order(random_key(seed, epoch, Purpose::kGlobalOrder), rows);
//   order.position(slot)        the row at `slot`
//   order.slot(position)        the slot of that row
//
// Below kTableSize it is a table shuffled by Fisher-Yates, because a keyed network of so few bits
// is visibly not uniform. Above, it is a Feistel network (M. Luby, C. Rackoff, "How to construct
// pseudorandom permutations from pseudorandom functions", 1988) on Z_a x Z_b. The product a b is
// size or a little more, so the walk that brings a value back into range (J. Black, P. Rogaway,
// "Ciphers with arbitrary finite domains", 2002) is almost never taken. Four rounds suffice for
// random functions; eight leave a margin for ours. 20 to 40 ns a row, no memory.
//
// Immutable; the same on every machine.

namespace penstock::plan {

class RowPermutation {
 public:
  static constexpr uint64_t kTableSize = 65'536;

  RowPermutation() = default;
  RowPermutation(uint64_t key, uint64_t size);

  uint64_t size() const noexcept { return size_; }

  /// `slot` is below size().
  uint64_t position(uint64_t slot) const noexcept {
    if (size_ < kTableSize) return positions_[static_cast<size_t>(slot)];
    do slot = forward(slot);
    while (slot >= size_);
    return slot;
  }

  /// The inverse.
  uint64_t slot(uint64_t position) const noexcept {
    if (size_ < kTableSize) return slots_[static_cast<size_t>(position)];
    do position = backward(position);
    while (position >= size_);
    return position;
  }

 private:
  static constexpr size_t kRounds = 8;

  struct Halves {
    uint64_t left, right;
  };

  /// A hash of `half` in [0, bound), uniform to bound / 2^64.
  static uint64_t round(uint64_t half, uint64_t key, uint64_t bound) noexcept {
    const uint64_t hash = mix64(half ^ key);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * bound) >> 64);
  }

  Halves split(uint64_t index) const noexcept {
    if (index <= UINT32_MAX && right_ <= UINT32_MAX) {  // 32-bit division is much the faster
      const auto low = static_cast<uint32_t>(index), by = static_cast<uint32_t>(right_);
      return {low / by, low % by};
    }
    return {index / right_, index % right_};
  }

  uint64_t forward(uint64_t index) const noexcept {
    Halves halves = split(index);
    for (size_t i = 0; i < kRounds; i += 2) {
      halves.left += round(halves.right, keys_[i], left_);
      if (halves.left >= left_) halves.left -= left_;
      halves.right += round(halves.left, keys_[i + 1], right_);
      if (halves.right >= right_) halves.right -= right_;
    }
    return halves.left * right_ + halves.right;
  }

  uint64_t backward(uint64_t index) const noexcept {
    Halves halves = split(index);
    for (size_t i = kRounds; i > 0; i -= 2) {
      halves.right += right_ - round(halves.left, keys_[i - 1], right_);
      if (halves.right >= right_) halves.right -= right_;
      halves.left += left_ - round(halves.right, keys_[i - 2], left_);
      if (halves.left >= left_) halves.left -= left_;
    }
    return halves.left * right_ + halves.right;
  }

  uint64_t size_ = 0;
  uint64_t left_ = 1, right_ = 1;
  std::array<uint64_t, kRounds> keys_{};
  std::vector<uint16_t> positions_, slots_;  ///< below kTableSize
};

}  // namespace penstock::plan
