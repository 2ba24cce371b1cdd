#include "codec/value_codes_avx2.h"

#if PENSTOCK_X86_PATHS

#include <immintrin.h>

// Packing instructions work in each 16-byte half separately. So results come in the order (lower
// halves of all inputs | upper halves of all inputs), and one permutation at the end restores it.
// The shuffled paths interleave in halves first, so the two effects cancel.

namespace penstock::codec::avx2 {
namespace {

#define PENSTOCK_INLINE __attribute__((target("avx2"), always_inline)) inline
#define PENSTOCK_TARGET __attribute__((target("avx2")))

PENSTOCK_INLINE __m256i load(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

PENSTOCK_INLINE void store(void* to, __m256i value) noexcept {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}

/// a, b of 4 int64 each: the low (high) 32 bits of a0 a1 b0 b1 | a2 a3 b2 b3.
PENSTOCK_INLINE __m256i low_halves(__m256i a, __m256i b) noexcept {
  return _mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}
PENSTOCK_INLINE __m256i high_halves(__m256i a, __m256i b) noexcept {
  return _mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xDD));
}

/// Elements of 4 bytes in the order 0 4 1 5 2 6 3 7.
PENSTOCK_INLINE __m256i weave_halves(__m256i value) noexcept {
  return _mm256_permutevar8x32_epi32(value, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

PENSTOCK_INLINE uint32_t finish_block(__m256i codes, uint8_t* out) noexcept {
  store(out, codes);
  const __m256i escapes = _mm256_cmpeq_epi8(codes, _mm256_set1_epi8(-1));
  return static_cast<uint32_t>(_mm256_movemask_epi8(escapes));
}

/// Converts 8 floats to 8 integers: non-negative integers keep their value, others become the
/// largest int32. Saturating packs turn these, and 255 and more, into the escape code.
PENSTOCK_INLINE __m256i integers_of(__m256i bits) noexcept {
  const __m256i integers = _mm256_cvttps_epi32(_mm256_castsi256_ps(bits));
  const __m256i back = _mm256_castps_si256(_mm256_cvtepi32_ps(integers));
  // Compares bits: -0.0 comes back as +0.0, which differs, and NaN never comes back.
  const __m256i same = _mm256_cmpeq_epi32(back, bits);
  const __m256i largest = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256i kept = _mm256_andnot_si256(_mm256_srai_epi32(bits, 31), same);
  return _mm256_blendv_epi8(largest, integers, kept);
}

/// Packs 4 x 8 non-negative int32 to 32 bytes, each half separately.
PENSTOCK_INLINE __m256i pack_bytes(__m256i a, __m256i b, __m256i c, __m256i d) noexcept {
  return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

PENSTOCK_INLINE __m256i at_most_escape(__m256i value) noexcept {
  return _mm256_min_epu32(value, _mm256_set1_epi32(kEscapeCode));
}

struct Float32 {
  PENSTOCK_INLINE static uint32_t block(const std::byte* cells, size_t begin, size_t,
                                        uint8_t* codes) noexcept {
    const std::byte* from = cells + 4 * begin;
    const __m256i packed = pack_bytes(integers_of(load(from)), integers_of(load(from + 32)),
                                      integers_of(load(from + 64)), integers_of(load(from + 96)));
    return finish_block(weave_halves(packed), codes + begin);
  }
};

struct Int32 {
  PENSTOCK_INLINE static uint32_t block(const std::byte* cells, size_t begin, size_t,
                                        uint8_t* codes) noexcept {
    const std::byte* from = cells + 4 * begin;
    const __m256i packed =
        pack_bytes(at_most_escape(load(from)), at_most_escape(load(from + 32)),
                   at_most_escape(load(from + 64)), at_most_escape(load(from + 96)));
    return finish_block(weave_halves(packed), codes + begin);
  }
};

struct Int64 {
  /// Converts 8 cells to 8 int32; values outside 0 … 254 become the escape code.
  PENSTOCK_INLINE static __m256i eight(const std::byte* from) noexcept {
    const __m256i a = load(from);
    const __m256i b = load(from + 32);
    const __m256i large = _mm256_xor_si256(
        _mm256_cmpeq_epi32(high_halves(a, b), _mm256_setzero_si256()), _mm256_set1_epi32(-1));
    const __m256i values = at_most_escape(_mm256_or_si256(low_halves(a, b), large));
    return _mm256_permute4x64_epi64(values, 0xD8);
  }
  PENSTOCK_INLINE static uint32_t block(const std::byte* cells, size_t begin, size_t,
                                        uint8_t* codes) noexcept {
    const std::byte* from = cells + 8 * begin;
    const __m256i packed =
        pack_bytes(eight(from), eight(from + 64), eight(from + 128), eight(from + 192));
    return finish_block(weave_halves(packed), codes + begin);
  }
};

struct ShuffledFloat32 {
  // An integer below 256 has 8 significant bits, all in the upper two bytes of a float32. So the
  // lower two planes must be zero.
  PENSTOCK_INLINE static uint32_t block(const std::byte* planes, size_t begin, size_t stride,
                                        uint8_t* codes) noexcept {
    const std::byte* from = planes + begin;
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_or_si256(load(from), load(from + stride));
    const __m256i third = load(from + 2 * stride);
    const __m256i fourth = load(from + 3 * stride);
    const __m256i upper_a = _mm256_unpacklo_epi8(third, fourth);
    const __m256i upper_b = _mm256_unpackhi_epi8(third, fourth);
    const __m256i packed = pack_bytes(integers_of(_mm256_unpacklo_epi16(zero, upper_a)),
                                      integers_of(_mm256_unpackhi_epi16(zero, upper_a)),
                                      integers_of(_mm256_unpacklo_epi16(zero, upper_b)),
                                      integers_of(_mm256_unpackhi_epi16(zero, upper_b)));
    const __m256i whole = _mm256_cmpeq_epi8(low, zero);
    return finish_block(_mm256_blendv_epi8(_mm256_set1_epi8(-1), packed, whole), codes + begin);
  }
};

template <size_t kWidth>
struct ShuffledInteger {
  PENSTOCK_INLINE static uint32_t block(const std::byte* planes, size_t begin, size_t stride,
                                        uint8_t* codes) noexcept {
    const std::byte* from = planes + begin;
    __m256i high = load(from + stride);
    for (size_t k = 2; k < kWidth; ++k) high = _mm256_or_si256(high, load(from + k * stride));
    const __m256i small = _mm256_cmpeq_epi8(high, _mm256_setzero_si256());
    const __m256i packed = _mm256_blendv_epi8(_mm256_set1_epi8(-1), load(from), small);
    return finish_block(packed, codes + begin);
  }
};

template <typename Block>
PENSTOCK_TARGET size_t run(const std::byte* in, size_t begin, size_t count, uint8_t* codes,
                           uint32_t& escaped) noexcept {
  while (begin + kBlockValues <= count) {
    const uint32_t mask = Block::block(in, begin, count, codes);
    begin += kBlockValues;
    if (mask != 0) {
      escaped = mask;
      return begin;
    }
  }
  escaped = 0;
  return begin;
}

}  // namespace

PENSTOCK_TARGET size_t float32_run(const std::byte* cells, size_t begin, size_t count,
                                   uint8_t* codes, uint32_t& escaped) noexcept {
  return run<Float32>(cells, begin, count, codes, escaped);
}
PENSTOCK_TARGET size_t int32_run(const std::byte* cells, size_t begin, size_t count, uint8_t* codes,
                                 uint32_t& escaped) noexcept {
  return run<Int32>(cells, begin, count, codes, escaped);
}
PENSTOCK_TARGET size_t int64_run(const std::byte* cells, size_t begin, size_t count, uint8_t* codes,
                                 uint32_t& escaped) noexcept {
  return run<Int64>(cells, begin, count, codes, escaped);
}
PENSTOCK_TARGET size_t shuffled_float32_run(const std::byte* planes, size_t begin, size_t count,
                                            uint8_t* codes, uint32_t& escaped) noexcept {
  return run<ShuffledFloat32>(planes, begin, count, codes, escaped);
}
PENSTOCK_TARGET size_t shuffled_int32_run(const std::byte* planes, size_t begin, size_t count,
                                          uint8_t* codes, uint32_t& escaped) noexcept {
  return run<ShuffledInteger<4>>(planes, begin, count, codes, escaped);
}
PENSTOCK_TARGET size_t shuffled_int64_run(const std::byte* planes, size_t begin, size_t count,
                                          uint8_t* codes, uint32_t& escaped) noexcept {
  return run<ShuffledInteger<8>>(planes, begin, count, codes, escaped);
}

#undef PENSTOCK_INLINE
#undef PENSTOCK_TARGET

}  // namespace penstock::codec::avx2

#endif
