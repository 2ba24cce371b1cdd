#include "format/soma/x_cell_kernels.h"

#if PENSTOCK_KERNEL_AVX2
#include <immintrin.h>
#endif

namespace penstock::format::soma {
namespace {

size_t row_changes_scalar(const int64_t* rows, size_t begin, size_t count, int64_t previous,
                          uint32_t base, uint32_t* begins) noexcept {
  size_t found = 0;
  for (size_t i = begin; i < count; ++i) {
    begins[found] = base + static_cast<uint32_t>(i);
    found += rows[i] != previous;
    previous = rows[i];
  }
  return found;
}

template <typename Index>
size_t not_ascending_scalar(const Index* indices, size_t begin, size_t count) noexcept {
  size_t found = 0;
  for (size_t i = begin; i < count; ++i) found += indices[i] <= indices[i - 1];
  return found;
}

#if PENSTOCK_KERNEL_AVX2
PENSTOCK_TARGET_AVX2 inline __m256i load(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

// Sixteen cells a step; runs are tens of cells long in real data, so most steps find nothing or
// one.
PENSTOCK_TARGET_AVX2 size_t row_changes_avx2(const int64_t* rows, size_t count, int64_t previous,
                                             uint32_t base, uint32_t* begins) noexcept {
  if (count == 0) return 0;
  size_t found = row_changes_scalar(rows, 0, 1, previous, base, begins);
  size_t i = 1;
  for (; i + 16 <= count; i += 16) {
    uint32_t same = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const __m256i equal = _mm256_cmpeq_epi64(load(rows + i + 4 * k), load(rows + i + 4 * k - 1));
      same |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) << (4 * k);
    }
    for (uint32_t changes = ~same & 0xFFFFU; changes != 0; changes &= changes - 1) {
      begins[found++] =
          base + static_cast<uint32_t>(i) + static_cast<uint32_t>(__builtin_ctz(changes));
    }
  }
  return found + row_changes_scalar(rows, i, count, rows[i - 1], base, begins + found);
}

PENSTOCK_TARGET_AVX2 size_t not_ascending_avx2(const uint16_t* indices, size_t count) noexcept {
  size_t found = 0;
  size_t i = 1;
  for (; i + 16 <= count; i += 16) {
    const __m256i now = load(indices + i);
    const __m256i before = load(indices + i - 1);
    // min(now, before) == now exactly when now <= before, unsigned.
    const __m256i hit = _mm256_cmpeq_epi16(_mm256_min_epu16(now, before), now);
    found += static_cast<size_t>(
        __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_epi8(hit))) / 2);
  }
  return i < count ? found + not_ascending_scalar(indices, i, count) : found;
}

PENSTOCK_TARGET_AVX2 size_t not_ascending_avx2(const uint32_t* indices, size_t count) noexcept {
  size_t found = 0;
  size_t i = 1;
  for (; i + 8 <= count; i += 8) {
    const __m256i now = load(indices + i);
    const __m256i before = load(indices + i - 1);
    const __m256i hit = _mm256_cmpeq_epi32(_mm256_min_epu32(now, before), now);
    found += static_cast<size_t>(
        __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(hit)))));
  }
  return i < count ? found + not_ascending_scalar(indices, i, count) : found;
}
#endif

template <typename Index>
size_t not_ascending(const Index* indices, size_t count, VectorPath path) noexcept {
#if PENSTOCK_KERNEL_AVX2
  if (path == VectorPath::kAvx2) return not_ascending_avx2(indices, count);
#endif
  static_cast<void>(path);
  return not_ascending_scalar(indices, 1, count);
}

}  // namespace

size_t find_row_changes(const int64_t* rows, size_t count, int64_t previous, uint32_t base,
                        uint32_t* begins, VectorPath path) noexcept {
#if PENSTOCK_KERNEL_AVX2
  if (path == VectorPath::kAvx2) return row_changes_avx2(rows, count, previous, base, begins);
#endif
  static_cast<void>(path);
  return row_changes_scalar(rows, 0, count, previous, base, begins);
}

size_t count_not_ascending(const uint16_t* indices, size_t count, VectorPath path) noexcept {
  return not_ascending(indices, count, path);
}

size_t count_not_ascending(const uint32_t* indices, size_t count, VectorPath path) noexcept {
  return not_ascending(indices, count, path);
}

}  // namespace penstock::format::soma
