#include "kernel/widen.h"

#include <cstring>
#include <type_traits>

#include "kernel/packed_row.h"
#include "kernel/value_type.h"

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::kernel {
namespace {

#if PENSTOCK_X86_PATHS

PENSTOCK_TARGET_AVX2 void widen_indices_avx2(const std::byte* from, uint32_t count,
                                             int32_t* to) noexcept {
  const auto step = [&](uint32_t i) __attribute__((always_inline, target("avx2"))) {
    const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + size_t{i} * 2));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu16_epi32(narrow));
  };
  for (uint32_t i = 0; i + 8 <= count; i += 8) step(i);
  if (count % 8 != 0) step(count - 8);
}

/// Stores the eight codes in the low half of `codes` as eight values.
template <typename T>
PENSTOCK_TARGET_AVX2 inline void store_eight(__m128i codes, T* to) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes)));
  } else if constexpr (std::is_same_v<T, double>) {
    const __m256i wide = _mm256_cvtepu8_epi32(codes);
    _mm256_storeu_pd(to, _mm256_cvtepi32_pd(_mm256_castsi256_si128(wide)));
    _mm256_storeu_pd(to + 4, _mm256_cvtepi32_pd(_mm256_extracti128_si256(wide, 1)));
  } else if constexpr (sizeof(T) == 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepu8_epi64(codes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4),
                        _mm256_cvtepu8_epi64(_mm_srli_si128(codes, 4)));
  } else if constexpr (sizeof(T) == 4) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepu8_epi32(codes));
  } else {
    static_assert(sizeof(T) == 2);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_cvtepu8_epi16(codes));
  }
}

template <typename T>
PENSTOCK_TARGET_AVX2 void widen_codes_avx2(const uint8_t* from, uint32_t count, T* to) noexcept {
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    store_eight(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)), to + i);
  }
  if (i != count) {
    i = count - 8;
    store_eight(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)), to + i);
  }
}

PENSTOCK_TARGET_AVX2 uint32_t find_escape_avx2(const uint8_t* codes, uint32_t begin,
                                               uint32_t count) noexcept {
  const __m256i escape = _mm256_set1_epi8(static_cast<char>(kEscapeCode));
  for (; begin + 32 <= count; begin += 32) {
    const __m256i chunk = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + begin));
    const auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(chunk, escape)));
    if (mask != 0) return begin + static_cast<uint32_t>(__builtin_ctz(mask));
  }
  while (begin < count && codes[begin] != kEscapeCode) ++begin;
  return begin;
}

#endif

}  // namespace

void widen_indices(const std::byte* from, uint32_t count, int32_t* to, VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2 && count >= 8) return widen_indices_avx2(from, count, to);
#endif
  static_cast<void>(path);
  for (uint32_t i = 0; i < count; ++i) to[i] = load_unaligned<uint16_t>(from + size_t{i} * 2);
}

template <typename T>
void widen_codes(const uint8_t* from, uint32_t count, T* to, VectorPath path) noexcept {
  if constexpr (sizeof(T) == 1) {
    if (count != 0) std::memcpy(to, from, count);
    return;
  }
#if PENSTOCK_X86_PATHS
  if constexpr (sizeof(T) > 1) {
    if (path == VectorPath::kAvx2 && count >= 8) return widen_codes_avx2(from, count, to);
  }
#endif
  static_cast<void>(path);
  for (uint32_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

template void widen_codes(const uint8_t*, uint32_t, int8_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, int16_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, int32_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, int64_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, uint8_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, uint16_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, uint32_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, uint64_t*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, float*, VectorPath) noexcept;
template void widen_codes(const uint8_t*, uint32_t, double*, VectorPath) noexcept;

uint32_t find_escape(const uint8_t* codes, uint32_t begin, uint32_t count,
                     VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) return find_escape_avx2(codes, begin, count);
#endif
  static_cast<void>(path);
  while (begin < count && codes[begin] != kEscapeCode) ++begin;
  return begin;
}

}  // namespace penstock::kernel
