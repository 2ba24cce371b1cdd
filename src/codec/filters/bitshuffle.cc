#include "codec/filters/bitshuffle.h"

#include <algorithm>
#include <cstring>

#include "codec/filters/shuffled_parts.h"

namespace penstock::codec {
namespace {

constexpr size_t kBlockBytes = 8192;

/// Bit b of byte i of the result is bit i of byte b: an 8 x 8 matrix transposed (Hacker's Delight,
/// 7-3).
uint64_t transpose_bits(uint64_t x) noexcept {
  uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAULL;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCULL;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ULL;
  return x ^ t ^ (t << 28);
}

void unshuffle_part(const FilterStep& step, std::span<const std::byte> in,
                    std::span<std::byte> out) {
  const size_t element = size_of(step.type);
  if (in.size() % element != 0 || in.size() % 8 != 0) {
    std::copy(in.begin(), in.end(), out.begin());
    return;
  }
  for (size_t at = 0; at < in.size(); at += kBlockBytes) {
    const size_t bytes = std::min(kBlockBytes, in.size() - at);
    const size_t count = bytes / element / 8 * 8;
    unshuffle_bits(element, count, in.data() + at, out.data() + at);
    const size_t done = count * element;
    std::copy_n(in.data() + at + done, bytes - done, out.data() + at + done);
  }
}

}  // namespace

void unshuffle_bits(size_t element_bytes, size_t count, const std::byte* in,
                    std::byte* out) noexcept {
  const size_t row = count / 8;
  for (size_t k = 0; k < element_bytes; ++k) {
    const std::byte* rows = in + 8 * k * row;
    for (size_t group = 0; group < row; ++group) {
      uint64_t bits = 0;
      for (size_t b = 0; b < 8; ++b) {
        bits |= std::to_integer<uint64_t>(rows[b * row + group]) << (8 * b);
      }
      const uint64_t elements = transpose_bits(bits);
      std::byte* to = out + 8 * group * element_bytes + k;
      for (size_t j = 0; j < 8; ++j) to[j * element_bytes] = std::byte(elements >> (8 * j));
    }
  }
}

void decode_bitshuffle(FilterStep& step) { transform_parts(step, unshuffle_part); }

}  // namespace penstock::codec
