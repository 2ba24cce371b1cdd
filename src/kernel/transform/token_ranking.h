#pragma once

#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/transform/row_transform.h"

namespace penstock::kernel {

/// A cell's entries to its row of tokens, by the rule of RankTokens. In double, each value computed
/// as value / total * target / median, so that values that are equal there are equal here.
/// Immutable, any thread, each with a scratch of its own.
class TokenRanking {
 public:
  /// The plan is checked before (check_plan).
  explicit TokenRanking(RankTokens tokens) : tokens_(std::move(tokens)) {}

  /// Fills max_tokens ids of the dtype; returns how many are no padding. `values` are overwritten.
  uint32_t rank(int64_t position, const int32_t* indices, double* values, uint32_t nnz,
                std::byte* ids, RowScratch& scratch) const;

  const RankTokens& tokens() const noexcept { return tokens_; }

 private:
  template <typename Id>
  uint32_t write(const int32_t* indices, Id* ids, const RowScratch& scratch) const;

  RankTokens tokens_;
};

}  // namespace penstock::kernel
