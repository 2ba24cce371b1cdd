#pragma once

#include <cstdint>

// The 64-bit mixer of fingerprints and random streams: a bijection in which every input bit affects
// every output bit. Two xor-shift-multiply rounds with the constants of David Stafford's "variant
// 13" (found by search over the MurmurHash3 finaliser's family, 2011; public). Integer arithmetic
// only, so the same on every machine.

namespace penstock {

inline constexpr uint64_t kGoldenRatio64 = 0x9e3779b97f4a7c15;  ///< 2^64 / golden ratio, odd

constexpr uint64_t mix64(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A hash of a sequence: h = hash_combine(h, next), from any start. Order matters.
constexpr uint64_t hash_combine(uint64_t hash, uint64_t value) noexcept {
  return mix64(mix64(hash + kGoldenRatio64) ^ (value + kGoldenRatio64));
}

}  // namespace penstock
