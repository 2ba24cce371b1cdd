#include "format/cells/cell_kernels.h"

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::format {
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

#if PENSTOCK_X86_PATHS
PENSTOCK_TARGET_AVX2 inline __m256i load(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// Bit k is set when rows[k] == rows[k - 1], for 64 rows.
PENSTOCK_TARGET_AVX2 inline uint64_t same_as_before(const int64_t* rows) noexcept {
  uint64_t same = 0;
  for (uint32_t k = 0; k < 64; k += 4) {
    const __m256i equal = _mm256_cmpeq_epi64(load(rows + k), load(rows + k - 1));
    const auto bits = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
    same |= uint64_t{bits} << k;
  }
  return same;
}

// 64 cells a step. In real data runs are tens of cells long, so most steps find at most two
// changes. Two are therefore written without a test, and only more of them take a branch.
PENSTOCK_TARGET_AVX2 size_t row_changes_avx2(const int64_t* rows, size_t count, int64_t previous,
                                             uint32_t base, uint32_t* begins) noexcept {
  if (count == 0) return 0;
  size_t found = row_changes_scalar(rows, 0, 1, previous, base, begins);
  size_t i = 1;
  for (; i + 64 <= count; i += 64) {
    uint64_t changes = ~same_as_before(rows + i);
    const uint32_t at = base + static_cast<uint32_t>(i);
    for (int k = 0; k < 2; ++k) {
      constexpr uint64_t kGuard = uint64_t{1} << 63;  // counting the zeros of 0 is undefined
      begins[found] = at + static_cast<uint32_t>(__builtin_ctzll(changes | kGuard));
      found += changes != 0;
      changes &= changes - 1;
    }
    for (; changes != 0; changes &= changes - 1) {
      begins[found++] = at + static_cast<uint32_t>(__builtin_ctzll(changes));
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
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) return not_ascending_avx2(indices, count);
#endif
  static_cast<void>(path);
  return not_ascending_scalar(indices, 1, count);
}

}  // namespace

size_t find_row_changes(const int64_t* rows, size_t count, int64_t previous, uint32_t base,
                        uint32_t* begins, VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
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

}  // namespace penstock::format
