#include "format/row_file/column_sums.h"

#include <penstock/error.h>

#include <cstring>

#include "base/concat.h"

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::format::pack {
namespace {

/// `next`: the smallest possible next column. 64 bits, so that no row overflows.
template <typename Index>
uint64_t sum_scalar(const Index* gaps, size_t begin, size_t count, uint64_t step, uint64_t next,
                    uint64_t column_count, std::byte* out) {
  for (size_t i = begin; i < count; ++i) {
    const uint64_t column = next + gaps[i];
    if (column >= column_count) {
      throw CorruptData(concat("column ", column, " of a row, of ", column_count));
    }
    const auto index = static_cast<Index>(column);
    std::memcpy(out + i * sizeof(Index), &index, sizeof(Index));
    next = column + step;
  }
  return next;
}

#if PENSTOCK_X86_PATHS
/// Sixteen columns a step. Sums saturate, so columns stay in order for any gaps. The caller checks
/// for columns that have reached 65,535. Returns the number of columns done.
PENSTOCK_TARGET_AVX2 size_t sum_avx2(const uint16_t* gaps, size_t count, bool strict,
                                     std::byte* out) noexcept {
  const __m256i ones = strict ? _mm256_set1_epi16(1) : _mm256_setzero_si256();
  const __m256i last_of_half = _mm256_set1_epi16(0x0F0E);
  // The step before the first column is none.
  __m256i before = _mm256_setzero_si256();  // the last column so far in every lane
  __m256i first = strict ? _mm256_setr_epi16(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
                         : _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(gaps + i));
    sum = _mm256_adds_epu16(sum, _mm256_sub_epi16(ones, first));
    first = _mm256_setzero_si256();
    sum = _mm256_adds_epu16(sum, _mm256_slli_si256(sum, 2));
    sum = _mm256_adds_epu16(sum, _mm256_slli_si256(sum, 4));
    sum = _mm256_adds_epu16(sum, _mm256_slli_si256(sum, 8));
    // The lower half's total to the upper half.
    const __m256i totals = _mm256_shuffle_epi8(sum, last_of_half);
    sum = _mm256_adds_epu16(sum, _mm256_permute2x128_si256(totals, totals, 0x08));
    const __m256i whole = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(sum, last_of_half), 0xFF);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i * 2), _mm256_adds_epu16(sum, before));
    before = _mm256_adds_epu16(before, whole);
  }
  return i;
}

uint16_t column_at(const std::byte* columns, size_t i) noexcept {
  uint16_t column;
  std::memcpy(&column, columns + i * sizeof(column), sizeof(column));
  return column;
}
#endif

}  // namespace

void sum_gaps(const uint16_t* gaps, size_t count, bool strict, uint64_t column_count,
              std::byte* out, VectorPath path) {
  size_t done = 0;
  uint64_t next = 0;
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2 && count >= 16) {
    done = sum_avx2(gaps, count, strict, out);
    const uint64_t last = column_at(out, done - 1);
    // 65,535 may be exact or saturated. In this rare case everything is summed again.
    if (last == 0xFFFF) {
      done = 0;
    } else if (last >= column_count) {
      throw CorruptData(concat("column ", last, " of a row, of ", column_count));
    } else {
      next = last + (strict ? 1 : 0);
    }
  }
#endif
  static_cast<void>(path);
  sum_scalar(gaps, done, count, strict ? 1 : 0, next, column_count, out);
}

void sum_gaps(const uint32_t* gaps, size_t count, bool strict, uint64_t column_count,
              std::byte* out, VectorPath /*path*/) {
  sum_scalar(gaps, 0, count, strict ? 1 : 0, 0, column_count, out);
}

}  // namespace penstock::format::pack
