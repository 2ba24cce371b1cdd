#include "kernel/transform/token_ranking.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernel/transform/sort_keys.h"

namespace penstock::kernel {
namespace {

/// A key that is smaller for larger values. Rounding to float keeps the order except for ties,
/// which are resolved after the sort.
uint32_t descending_key(double value) noexcept {
  const auto rounded = static_cast<float>(std::min(value, 1e38));
  return std::numeric_limits<uint32_t>::max() / 2 - std::bit_cast<uint32_t>(rounded);
}

uint32_t number_of(uint64_t key) noexcept { return static_cast<uint32_t>(key); }

}  // namespace

uint32_t TokenRanking::rank(int64_t position, const int32_t* indices, double* values, uint32_t nnz,
                            std::byte* ids, RowScratch& scratch) const {
  const double total = tokens_.row_totals != nullptr
                           ? (*tokens_.row_totals)[static_cast<size_t>(position)]
                           : total_of(values, nnz);
  scratch.keys.clear();
  for (uint32_t i = 0; i < nnz; ++i) {
    const double median = tokens_.medians[static_cast<size_t>(indices[i])];
    if (!(median > 0 && values[i] > 0)) continue;
    values[i] = values[i] / total * tokens_.target / median;
    scratch.keys.push_back(uint64_t{descending_key(values[i])} << 32 | i);
  }
  sort_keys(scratch.keys, 31, scratch.spare);
  // Sorts runs of values that are equal as float.
  auto& keys = scratch.keys;
  for (size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
    while (end < keys.size() && keys[end] >> 32 == keys[begin] >> 32) ++end;
    if (end - begin == 1) continue;
    std::stable_sort(
        keys.begin() + static_cast<ptrdiff_t>(begin), keys.begin() + static_cast<ptrdiff_t>(end),
        [&](uint64_t a, uint64_t b) { return values[number_of(a)] > values[number_of(b)]; });
  }
  return tokens_.dtype == DataType::kInt32
             ? write(indices, reinterpret_cast<int32_t*>(ids), scratch)
             : write(indices, reinterpret_cast<int64_t*>(ids), scratch);
}

template <typename Id>
uint32_t TokenRanking::write(const int32_t* indices, Id* ids, const RowScratch& scratch) const {
  const uint32_t ends = (tokens_.first ? 1U : 0U) + (tokens_.last ? 1U : 0U);
  const auto genes =
      static_cast<uint32_t>(std::min<size_t>(scratch.keys.size(), tokens_.max_tokens - ends));
  uint32_t length = 0;
  if (tokens_.first) ids[length++] = static_cast<Id>(*tokens_.first);
  for (uint32_t i = 0; i < genes; ++i) {
    const int32_t column = indices[number_of(scratch.keys[i])];
    ids[length++] = static_cast<Id>(tokens_.tokens[static_cast<size_t>(column)]);
  }
  if (tokens_.last) ids[length++] = static_cast<Id>(*tokens_.last);
  std::fill(ids + length, ids + tokens_.max_tokens, static_cast<Id>(tokens_.pad));
  return length;
}

}  // namespace penstock::kernel
