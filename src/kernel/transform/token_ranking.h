#pragma once

#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/transform/row_transform.h"

namespace penstock::kernel {

/// Converts a cell's entries to its row of tokens, by the rule of RankTokens. Computes
/// value / total * target / median in double and in this order, so ties are those of Geneformer's
/// tokenizer. Immutable; any thread, each with its own scratch.
class TokenRanking {
 public:
  /// Call check_plan before.
  explicit TokenRanking(RankTokens tokens) : tokens_(std::move(tokens)) {}

  /// Fills max_tokens ids of the dtype and returns how many are not padding. Overwrites `values`.
  uint32_t rank(int64_t position, const int32_t* indices, double* values, uint32_t nnz,
                std::byte* ids, RowScratch& scratch) const;

  const RankTokens& tokens() const noexcept { return tokens_; }

 private:
  template <typename Id>
  uint32_t write(const int32_t* indices, Id* ids, const RowScratch& scratch) const;

  RankTokens tokens_;
};

}  // namespace penstock::kernel
