#include "format/cells/narrow_ids.h"

#include <cstring>

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::format {
namespace {

uint64_t plane_id(const std::byte* planes, size_t count, size_t i) noexcept {
  uint64_t id = 0;
  for (size_t k = 0; k < 8; ++k)
    id |= uint64_t{std::to_integer<uint8_t>(planes[k * count + i])} << (8 * k);
  return id;
}

uint64_t plain_id(const std::byte* ids, size_t i) noexcept {
  uint64_t id;
  std::memcpy(&id, ids + i * 8, 8);
  return id;
}

template <typename Out, typename Get>
void narrow_scalar(Get&& get, size_t begin, size_t end, uint32_t shift, Out* out,
                   IdRange& range) noexcept {
  for (size_t i = begin; i < end; ++i) {
    const uint64_t id = get(i);
    const auto low = static_cast<Out>(id);
    range.high |= id - low;
    range.min = std::min<uint32_t>(range.min, low);
    range.max = std::max<uint32_t>(range.max, low);
    out[i] = static_cast<Out>(low - shift);
  }
}

#if PENSTOCK_X86_PATHS
PENSTOCK_TARGET_AVX2 inline __m256i load(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

PENSTOCK_TARGET_AVX2 inline __m128i load16(const void* from) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// The low words of x's and y's 64-bit lanes: x0 x1 y0 y1 | x2 x3 y2 y3.
PENSTOCK_TARGET_AVX2 inline __m256i low_words(__m256i x, __m256i y) noexcept {
  return _mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), 0x88));
}

PENSTOCK_TARGET_AVX2 inline void store(void* to, __m256i value) noexcept {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}

PENSTOCK_TARGET_AVX2 bool any_bit(const std::byte* bytes, size_t count) noexcept {
  __m256i all = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 128 <= count; i += 128) {
    all = _mm256_or_si256(
        all, _mm256_or_si256(_mm256_or_si256(load(bytes + i), load(bytes + i + 32)),
                             _mm256_or_si256(load(bytes + i + 64), load(bytes + i + 96))));
  }
  std::byte rest{0};
  for (; i < count; ++i) rest |= bytes[i];
  return rest != std::byte{0} || _mm256_testz_si256(all, all) == 0;
}

PENSTOCK_TARGET_AVX2 void take_range(__m256i min, __m256i max, IdRange& range) noexcept {
  alignas(32) uint16_t low[16];
  alignas(32) uint16_t high[16];
  store(low, min);
  store(high, max);
  for (size_t k = 0; k < 16; ++k) {
    range.min = std::min<uint32_t>(range.min, low[k]);
    range.max = std::max<uint32_t>(range.max, high[k]);
  }
}

PENSTOCK_TARGET_AVX2 size_t narrow_planes_avx2(const std::byte* planes, size_t count,
                                               uint32_t shift, uint16_t* out,
                                               IdRange& range) noexcept {
  if (any_bit(planes + 2 * count, 6 * count)) range.high |= 1;
  const __m256i offset = _mm256_set1_epi16(static_cast<int16_t>(shift));
  __m256i min = _mm256_set1_epi16(-1);
  __m256i max = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    // Lanes apart first, so that the unpacked halves come out in order.
    const __m256i low = _mm256_permute4x64_epi64(load(planes + i), 0xD8);
    const __m256i high = _mm256_permute4x64_epi64(load(planes + count + i), 0xD8);
    const __m256i a = _mm256_unpacklo_epi8(low, high);
    const __m256i b = _mm256_unpackhi_epi8(low, high);
    min = _mm256_min_epu16(min, _mm256_min_epu16(a, b));
    max = _mm256_max_epu16(max, _mm256_max_epu16(a, b));
    store(out + i, _mm256_sub_epi16(a, offset));
    store(out + i + 16, _mm256_sub_epi16(b, offset));
  }
  if (i != 0) take_range(min, max, range);
  return i;
}

PENSTOCK_TARGET_AVX2 size_t narrow_plain_avx2(const std::byte* ids, size_t count, uint32_t shift,
                                              uint16_t* out, IdRange& range) noexcept {
  const __m256i offset = _mm256_set1_epi16(static_cast<int16_t>(shift));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i above = _mm256_set1_epi64x(~int64_t{0xFFFF});
  __m256i min = _mm256_set1_epi16(-1);
  __m256i max = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i a = load(ids + i * 8), b = load(ids + i * 8 + 32), c = load(ids + i * 8 + 64),
                  d = load(ids + i * 8 + 96);
    high = _mm256_or_si256(high, _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
    // Low words of 4 + 4 ids by lane: a0 a1 b0 b1 | a2 a3 b2 b3, then the same of c and d.
    const __m256i packed = _mm256_packus_epi32(low_words(a, b), low_words(c, d));
    // Lane 0: a01 b01 c01 d01, lane 1: a23 b23 c23 d23, two ids to a 32-bit word.
    const __m256i ids16 = _mm256_permutevar8x32_epi32(packed, order);
    min = _mm256_min_epu16(min, ids16);
    max = _mm256_max_epu16(max, ids16);
    store(out + i, _mm256_sub_epi16(ids16, offset));
  }
  if (_mm256_testz_si256(high, above) == 0) range.high |= 1;
  if (i != 0) take_range(min, max, range);
  return i;
}

// Bytes 0 … 3 of 32 ids a step. Instructions for 32-bit minima are as many, so the range costs no
// more than for 16 bits.
PENSTOCK_TARGET_AVX2 size_t narrow_planes_avx2(const std::byte* planes, size_t count,
                                               uint32_t shift, uint32_t* out,
                                               IdRange& range) noexcept {
  if (any_bit(planes + 4 * count, 4 * count)) range.high |= 1;
  const __m256i offset = _mm256_set1_epi32(static_cast<int32_t>(shift));
  __m256i min = _mm256_set1_epi32(-1);
  __m256i max = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i p0 = load16(planes + i), p1 = load16(planes + count + i),
                  p2 = load16(planes + 2 * count + i), p3 = load16(planes + 3 * count + i);
    const __m128i low_a = _mm_unpacklo_epi8(p0, p1), low_b = _mm_unpackhi_epi8(p0, p1);
    const __m128i high_a = _mm_unpacklo_epi8(p2, p3), high_b = _mm_unpackhi_epi8(p2, p3);
    const __m256i a =
        _mm256_set_m128i(_mm_unpackhi_epi16(low_a, high_a), _mm_unpacklo_epi16(low_a, high_a));
    const __m256i b =
        _mm256_set_m128i(_mm_unpackhi_epi16(low_b, high_b), _mm_unpacklo_epi16(low_b, high_b));
    min = _mm256_min_epu32(min, _mm256_min_epu32(a, b));
    max = _mm256_max_epu32(max, _mm256_max_epu32(a, b));
    store(out + i, _mm256_sub_epi32(a, offset));
    store(out + i + 8, _mm256_sub_epi32(b, offset));
  }
  if (i != 0) {
    alignas(32) uint32_t low[8];
    alignas(32) uint32_t high[8];
    store(low, min);
    store(high, max);
    for (size_t k = 0; k < 8; ++k) {
      range.min = std::min(range.min, low[k]);
      range.max = std::max(range.max, high[k]);
    }
  }
  return i;
}

PENSTOCK_TARGET_AVX2 size_t narrow_plain_avx2(const std::byte* ids, size_t count, uint32_t shift,
                                              uint32_t* out, IdRange& range) noexcept {
  const __m256i offset = _mm256_set1_epi32(static_cast<int32_t>(shift));
  const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
  const __m256i above = _mm256_set1_epi64x(~int64_t{0xFFFFFFFF});
  __m256i min = _mm256_set1_epi32(-1);
  __m256i max = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i a = load(ids + i * 8), b = load(ids + i * 8 + 32);
    high = _mm256_or_si256(high, _mm256_or_si256(a, b));
    const __m256i lows = low_words(a, b);
    const __m256i ids32 = _mm256_permutevar8x32_epi32(lows, order);
    min = _mm256_min_epu32(min, ids32);
    max = _mm256_max_epu32(max, ids32);
    store(out + i, _mm256_sub_epi32(ids32, offset));
  }
  if (_mm256_testz_si256(high, above) == 0) range.high |= 1;
  if (i != 0) {
    alignas(32) uint32_t low[8];
    alignas(32) uint32_t top[8];
    store(low, min);
    store(top, max);
    for (size_t k = 0; k < 8; ++k) {
      range.min = std::min(range.min, low[k]);
      range.max = std::max(range.max, top[k]);
    }
  }
  return i;
}
#endif

template <typename Out>
void narrow(const codec::CellBytes& ids, size_t count, uint32_t shift, Out* out, IdRange& range,
            VectorPath path) noexcept {
  const std::byte* bytes = ids.bytes.data();
  size_t done = 0;
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) {
    done = ids.shuffled ? narrow_planes_avx2(bytes, count, shift, out, range)
                        : narrow_plain_avx2(bytes, count, shift, out, range);
  }
#endif
  static_cast<void>(path);
  if (ids.shuffled) {
    narrow_scalar([&](size_t i) { return plane_id(bytes, count, i); }, done, count, shift, out,
                  range);
  } else {
    narrow_scalar([&](size_t i) { return plain_id(bytes, i); }, done, count, shift, out, range);
  }
}

}  // namespace

void narrow_ids(const codec::CellBytes& ids, size_t count, uint32_t shift, uint16_t* out,
                IdRange& range, VectorPath path) noexcept {
  narrow(ids, count, shift, out, range, path);
}

void narrow_ids(const codec::CellBytes& ids, size_t count, uint32_t shift, uint32_t* out,
                IdRange& range, VectorPath path) noexcept {
  narrow(ids, count, shift, out, range, path);
}

}  // namespace penstock::format
