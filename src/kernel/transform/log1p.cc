#include "kernel/transform/log1p.h"

#include <bit>
#include <cmath>

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

// A fused multiply-add rounds once, but the vector path rounds twice.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__) && !defined(__x86_64__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace penstock::kernel {
namespace {

constexpr float kLeast = -0.999F;
constexpr float kMost = 0x1p60F;
constexpr int32_t kSqrtHalfBits = 0x3f3504f3;  // m is in [sqrt(1/2), sqrt(2))
constexpr int32_t kOneBits = 0x3f800000;
constexpr float kLog2High = 0x1.62e4p-1F;  // 16 bits: k times it is exact
constexpr float kLog2Low = 0x1.7f7d1cp-20F;

/// For values in (kLeast, kMost).
float log1p_one(float x) noexcept {
  const int32_t exponent = (std::bit_cast<int32_t>(1.0F + x) - kSqrtHalfBits) >> 23;
  const float power = std::bit_cast<float>(kOneBits - exponent * (1 << 23));  // 2^-k
  const float f = x * power + (power - 1.0F);
  const float s = f / (2.0F + f);
  const float z = s * s;
  float series = 1.0F / 11.0F;
  series = series * z + 1.0F / 9.0F;
  series = series * z + 1.0F / 7.0F;
  series = series * z + 1.0F / 5.0F;
  series = series * z + 1.0F / 3.0F;
  series = series * z;
  // 2 atanh(s) = 2 s (1 + series), and 2 s = f - s f: the first term is exact.
  const auto k = static_cast<float>(exponent);
  const float tail = k * kLog2Low + (s * (2.0F * series) - s * f);
  return k * kLog2High + (f + tail);
}

bool is_inside(float x) noexcept { return x > kLeast && x < kMost; }

#if PENSTOCK_X86_PATHS
PENSTOCK_TARGET_AVX2 inline __m256 times_plus(__m256 a, __m256 b, float c) noexcept {
  return _mm256_add_ps(_mm256_mul_ps(a, b), _mm256_set1_ps(c));
}

PENSTOCK_TARGET_AVX2 inline __m256 log1p_eight(__m256 x) noexcept {
  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256i exponent =
      _mm256_srai_epi32(_mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(one, x)),
                                         _mm256_set1_epi32(kSqrtHalfBits)),
                        23);
  const __m256 power = _mm256_castsi256_ps(
      _mm256_sub_epi32(_mm256_set1_epi32(kOneBits), _mm256_slli_epi32(exponent, 23)));
  const __m256 f = _mm256_add_ps(_mm256_mul_ps(x, power), _mm256_sub_ps(power, one));
  const __m256 s = _mm256_div_ps(f, _mm256_add_ps(_mm256_set1_ps(2.0F), f));
  const __m256 z = _mm256_mul_ps(s, s);
  __m256 series = _mm256_set1_ps(1.0F / 11.0F);
  series = times_plus(series, z, 1.0F / 9.0F);
  series = times_plus(series, z, 1.0F / 7.0F);
  series = times_plus(series, z, 1.0F / 5.0F);
  series = times_plus(series, z, 1.0F / 3.0F);
  series = _mm256_mul_ps(series, z);
  const __m256 k = _mm256_cvtepi32_ps(exponent);
  const __m256 twice = _mm256_mul_ps(_mm256_set1_ps(2.0F), series);
  const __m256 rest = _mm256_sub_ps(_mm256_mul_ps(s, twice), _mm256_mul_ps(s, f));
  const __m256 tail = _mm256_add_ps(_mm256_mul_ps(k, _mm256_set1_ps(kLog2Low)), rest);
  return _mm256_add_ps(_mm256_mul_ps(k, _mm256_set1_ps(kLog2High)), _mm256_add_ps(f, tail));
}

/// Processes groups of eight values until one has a value out of range. Returns the number of
/// values processed.
PENSTOCK_TARGET_AVX2 uint32_t log1p_avx2(float* values, uint32_t count) noexcept {
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 x = _mm256_loadu_ps(values + i);
    const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(kLeast), _CMP_GT_OQ),
                                        _mm256_cmp_ps(x, _mm256_set1_ps(kMost), _CMP_LT_OQ));
    if (_mm256_movemask_ps(inside) != 0xFF) break;
    _mm256_storeu_ps(values + i, log1p_eight(x));
  }
  return i;
}
#endif

}  // namespace

void log1p_values(float* values, uint32_t count, VectorPath path) noexcept {
  uint32_t i = 0;
  while (i < count) {
#if PENSTOCK_X86_PATHS
    if (path == VectorPath::kAvx2) i += log1p_avx2(values + i, count - i);
#endif
    static_cast<void>(path);
    // The rest, or a group with a value out of range, after which the vector path continues.
    for (uint32_t n = 0; n < 8 && i < count; ++n, ++i) {
      values[i] = is_inside(values[i]) ? log1p_one(values[i]) : std::log1p(values[i]);
    }
  }
}

void log1p_values(double* values, uint32_t count, VectorPath) noexcept {
  for (uint32_t i = 0; i < count; ++i) values[i] = std::log1p(values[i]);
}

}  // namespace penstock::kernel
