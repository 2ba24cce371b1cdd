#include "codec/filters/byteshuffle.h"

#if PENSTOCK_X86_PATHS

#include <immintrin.h>

// Un-shuffling is a transposition: log2(element bytes) rounds of interleaving, first of bytes, then
// of pairs, then of fours. A 32-byte interleave works in each half separately. So a result has
// elements i … of the lower 16-element group and 16 + i … of the upper one. The halves are stored
// separately, which costs no shuffle.

namespace penstock::codec {
namespace {

#define PENSTOCK_AVX2 __attribute__((target("avx2"), always_inline)) inline

inline __m128i load16(const std::byte* from) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

inline void store16(std::byte* to, __m128i value) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
}

PENSTOCK_AVX2 __m256i load32(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// Stores the halves of `value` at `to` and `to + apart`.
PENSTOCK_AVX2 void store_halves(std::byte* to, size_t apart, __m256i value) noexcept {
  store16(to, _mm256_castsi256_si128(value));
  store16(to + apart, _mm256_extracti128_si256(value, 1));
}

struct Pair128 {
  __m128i low, high;
};
struct Pair256 {
  __m256i low, high;
};

inline Pair128 interleave8(__m128i a, __m128i b) noexcept {
  return {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
}
inline Pair128 interleave16(__m128i a, __m128i b) noexcept {
  return {_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)};
}
inline Pair128 interleave32(__m128i a, __m128i b) noexcept {
  return {_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)};
}
PENSTOCK_AVX2 Pair256 interleave8(__m256i a, __m256i b) noexcept {
  return {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
}
PENSTOCK_AVX2 Pair256 interleave16(__m256i a, __m256i b) noexcept {
  return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}
PENSTOCK_AVX2 Pair256 interleave32(__m256i a, __m256i b) noexcept {
  return {_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)};
}

/// 16 elements of 8 bytes: four planes give two runs of half elements, which join.
inline void unshuffle8_sse2(const std::byte* planes, size_t stride, std::byte* out) noexcept {
  Pair128 fours[2][2];  // [half of the element][elements 0-7, 8-15], 4 bytes of 4 elements each
  for (size_t half = 0; half < 2; ++half) {
    const std::byte* from = planes + 4 * half * stride;
    const Pair128 a = interleave8(load16(from), load16(from + stride));
    const Pair128 b = interleave8(load16(from + 2 * stride), load16(from + 3 * stride));
    fours[half][0] = interleave16(a.low, b.low);
    fours[half][1] = interleave16(a.high, b.high);
  }
  for (size_t group = 0; group < 2; ++group) {
    const Pair128 low = interleave32(fours[0][group].low, fours[1][group].low);
    const Pair128 high = interleave32(fours[0][group].high, fours[1][group].high);
    std::byte* to = out + 64 * group;
    store16(to, low.low);
    store16(to + 16, low.high);
    store16(to + 32, high.low);
    store16(to + 48, high.high);
  }
}

/// 32 elements of 8 bytes.
PENSTOCK_AVX2 void unshuffle8_avx2(const std::byte* planes, size_t stride,
                                   std::byte* out) noexcept {
  Pair256 fours[2][2];
  for (size_t half = 0; half < 2; ++half) {
    const std::byte* from = planes + 4 * half * stride;
    const Pair256 a = interleave8(load32(from), load32(from + stride));
    const Pair256 b = interleave8(load32(from + 2 * stride), load32(from + 3 * stride));
    fours[half][0] = interleave16(a.low, b.low);
    fours[half][1] = interleave16(a.high, b.high);
  }
  for (size_t group = 0; group < 2; ++group) {
    const Pair256 low = interleave32(fours[0][group].low, fours[1][group].low);
    const Pair256 high = interleave32(fours[0][group].high, fours[1][group].high);
    std::byte* to = out + 64 * group;
    store_halves(to, 128, low.low);
    store_halves(to + 16, 128, low.high);
    store_halves(to + 32, 128, high.low);
    store_halves(to + 48, 128, high.high);
  }
}

inline void unshuffle4_sse2(const std::byte* planes, size_t stride, std::byte* out) noexcept {
  const Pair128 a = interleave8(load16(planes), load16(planes + stride));
  const Pair128 b = interleave8(load16(planes + 2 * stride), load16(planes + 3 * stride));
  const Pair128 low = interleave16(a.low, b.low);
  const Pair128 high = interleave16(a.high, b.high);
  store16(out, low.low);
  store16(out + 16, low.high);
  store16(out + 32, high.low);
  store16(out + 48, high.high);
}

PENSTOCK_AVX2 void unshuffle4_avx2(const std::byte* planes, size_t stride,
                                   std::byte* out) noexcept {
  const Pair256 a = interleave8(load32(planes), load32(planes + stride));
  const Pair256 b = interleave8(load32(planes + 2 * stride), load32(planes + 3 * stride));
  const Pair256 low = interleave16(a.low, b.low);
  const Pair256 high = interleave16(a.high, b.high);
  store_halves(out, 64, low.low);
  store_halves(out + 16, 64, low.high);
  store_halves(out + 32, 64, high.low);
  store_halves(out + 48, 64, high.high);
}

inline void unshuffle2_sse2(const std::byte* planes, size_t stride, std::byte* out) noexcept {
  const Pair128 pairs = interleave8(load16(planes), load16(planes + stride));
  store16(out, pairs.low);
  store16(out + 16, pairs.high);
}

PENSTOCK_AVX2 void unshuffle2_avx2(const std::byte* planes, size_t stride,
                                   std::byte* out) noexcept {
  const Pair256 pairs = interleave8(load32(planes), load32(planes + stride));
  store_halves(out, 32, pairs.low);
  store_halves(out + 16, 32, pairs.high);
}

#undef PENSTOCK_AVX2

}  // namespace

size_t unshuffle_sse2(size_t element_bytes, const std::byte* planes, size_t stride, size_t count,
                      std::byte* out) noexcept {
  const size_t whole = count / 16 * 16;
  switch (element_bytes) {
    case 2:
      for (size_t i = 0; i < whole; i += 16) unshuffle2_sse2(planes + i, stride, out + 2 * i);
      return whole;
    case 4:
      for (size_t i = 0; i < whole; i += 16) unshuffle4_sse2(planes + i, stride, out + 4 * i);
      return whole;
    default:
      for (size_t i = 0; i < whole; i += 16) unshuffle8_sse2(planes + i, stride, out + 8 * i);
      return whole;
  }
}

__attribute__((target("avx2"))) size_t unshuffle_avx2(size_t element_bytes, const std::byte* planes,
                                                      size_t stride, size_t count,
                                                      std::byte* out) noexcept {
  const size_t whole = count / 32 * 32;
  switch (element_bytes) {
    case 2:
      for (size_t i = 0; i < whole; i += 32) unshuffle2_avx2(planes + i, stride, out + 2 * i);
      return whole;
    case 4:
      for (size_t i = 0; i < whole; i += 32) unshuffle4_avx2(planes + i, stride, out + 4 * i);
      return whole;
    default:
      for (size_t i = 0; i < whole; i += 32) unshuffle8_avx2(planes + i, stride, out + 8 * i);
      return whole;
  }
}

}  // namespace penstock::codec

#endif
