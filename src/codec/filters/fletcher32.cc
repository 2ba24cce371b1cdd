#include "codec/filters/fletcher32.h"

#include <algorithm>

namespace penstock::codec {
namespace {

/// Both sums are modulo 65,535, with 65,535 in place of 0.
constexpr uint64_t fold(uint64_t sum) noexcept {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

}  // namespace

uint32_t fletcher32(std::span<const std::byte> bytes) noexcept {
  // Words between two foldings: the larger sum stays below 2^64.
  constexpr size_t kWords = size_t{1} << 20;
  uint64_t first = 0, second = 0;
  const size_t words = bytes.size() / 2;
  for (size_t begin = 0; begin < words; begin += kWords) {
    const size_t end = std::min(words, begin + kWords);
    for (size_t i = begin; i < end; ++i) {
      first += std::to_integer<uint64_t>(bytes[2 * i]) << 8 |
               std::to_integer<uint64_t>(bytes[2 * i + 1]);
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  if (bytes.size() % 2 != 0) {
    first = fold(first + (std::to_integer<uint64_t>(bytes.back()) << 8));
    second = fold(second + first);
  }
  return static_cast<uint32_t>(second << 16 | first);
}

}  // namespace penstock::codec
