#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/vector_path.h"
#include "kernel/packed_row.h"
#include "kernel/value_type.h"

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

// Encodes values as one-byte codes. Used by pack_row.cc; a header, so that a decoder can fuse it
// with its own loop over values of a known type.

namespace penstock::kernel {

/// The code of one value; exact for every bit pattern (-0.0 and NaN escape).
template <typename T>
inline uint8_t encode_one(T value) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (!(value >= 0 && value < kEscapeCode)) return kEscapeCode;
    const auto code = static_cast<uint8_t>(value);
    const auto back = static_cast<T>(code);
    return std::memcmp(&back, &value, sizeof(T)) == 0 ? code : kEscapeCode;
  } else {
    return std::in_range<uint8_t>(value) ? static_cast<uint8_t>(value) : kEscapeCode;
  }
}

template <typename T>
uint32_t encode_scalar(const std::byte* values, uint32_t begin, uint32_t nnz,
                       uint8_t* codes) noexcept {
  uint32_t escapes = 0;
  for (uint32_t i = begin; i < nnz; ++i) {
    codes[i] = encode_one(load_unaligned<T>(values + size_t{i} * sizeof(T)));
    escapes += codes[i] == kEscapeCode;
  }
  return escapes;
}

#if PENSTOCK_X86_PATHS
/// Converts eight 32-bit values (float or integer) to codes 0 … 255 in 32-bit lanes.
template <typename T>
PENSTOCK_TARGET_AVX2 inline __m256i encode_lanes(const std::byte* from) noexcept {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i limit = _mm256_set1_epi32(kEscapeCode);
  if constexpr (std::is_same_v<T, float>) {
    const __m256i integer = _mm256_cvttps_epi32(_mm256_castsi256_ps(bits));
    const __m256i back = _mm256_castps_si256(_mm256_cvtepi32_ps(integer));
    const __m256i exact = _mm256_cmpeq_epi32(back, bits);
    // Unsigned minimum: negative integers become 255; where not exact, or with all ones.
    const __m256i code = _mm256_min_epu32(integer, limit);
    return _mm256_min_epu32(_mm256_or_si256(code, _mm256_andnot_si256(exact, limit)), limit);
  } else {
    return _mm256_min_epu32(bits, limit);
  }
}

template <typename T>
PENSTOCK_TARGET_AVX2 uint32_t encode_avx2(const std::byte* values, uint32_t nnz,
                                          uint8_t* codes) noexcept {
  uint32_t escapes = 0;
  uint32_t i = 0;
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i all = _mm256_set1_epi8(static_cast<char>(kEscapeCode));
  for (; i + 32 <= nnz; i += 32) {
    const std::byte* from = values + size_t{i} * 4;
    const __m256i low = _mm256_packus_epi32(encode_lanes<T>(from), encode_lanes<T>(from + 32));
    const __m256i high =
        _mm256_packus_epi32(encode_lanes<T>(from + 64), encode_lanes<T>(from + 96));
    const __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), packed);
    const auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(packed, all)));
    escapes += static_cast<uint32_t>(__builtin_popcount(mask));
  }
  return escapes + encode_scalar<T>(values, i, nnz, codes);
}
#endif

template <typename T>
uint32_t encode(const std::byte* values, uint32_t nnz, uint8_t* codes, VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if constexpr (sizeof(T) == 4) {
    if (path == VectorPath::kAvx2) return encode_avx2<T>(values, nnz, codes);
  }
#endif
  static_cast<void>(path);
  return encode_scalar<T>(values, 0, nnz, codes);
}

}  // namespace penstock::kernel
