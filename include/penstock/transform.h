#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

// What is done to the values of each cell while batches are made (docs/design/0006). A plan is a
// list of steps, in the order in which they are applied; each sees the columns and values that the
// one before left. Plain data: LoaderOptions takes it, and the loader checks it.

namespace penstock {

struct TransformStep {
  enum class Kind : uint8_t {
    kNormalizeTotal,  ///< value / (total / target); a cell whose total is 0 stays as it is
    kLog1p,           ///< log(1 + value) / divisor
    kExpm1,           ///< exp(value * divisor) - 1
    kClip,            ///< to [low, high]
    kBinarize,        ///< 1 where value > low, else 0
    kScale,           ///< (value - mean) / scale, by column
    kColumns,         ///< other columns, in another order
  };
  using Numbers = std::shared_ptr<const std::vector<double>>;

  Kind kind = Kind::kLog1p;
  double target = 1e4;
  double divisor = 1;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  /// kNormalizeTotal: totals by position in the row selection; null: the sum of the values that
  /// the cell has at this step.
  Numbers row_totals;
  Numbers scale;  ///< kScale: one a column, not 0
  Numbers mean;   ///< kScale: one a column, or null for no centring; dense batches only
  /// kColumns: for each column its place among the new ones, or -1 when it is left out. A new
  /// column that no old one goes to is zero.
  std::shared_ptr<const std::vector<int32_t>> places;
  uint32_t columns = 0;  ///< kColumns: how many new ones
};

/// The columns with a value above zero, by value / (total / 1 x target) / median from high to low,
/// equal ones by ascending column; as Geneformer's tokenizer ranks them.
struct RankTokens {
  double target = 1e4;
  std::vector<double> medians;  ///< by column; 0 or less: the column has no token
  std::vector<int64_t> tokens;  ///< by column
  uint32_t max_tokens = 2048;   ///< columns of the batch; first and last token included
  int64_t pad = 0;
  std::optional<int64_t> first, last;  ///< tokens put at both ends
  TransformStep::Numbers row_totals;   ///< as in TransformStep
  DataType dtype = DataType::kInt64;   ///< of the batch: int32 or int64
};

struct TransformPlan {
  std::vector<TransformStep> steps;
  /// Batches are dense matrices of tokens, one row a cell, and Batch::lengths() says how many.
  std::optional<RankTokens> tokens;

  bool empty() const noexcept { return steps.empty() && !tokens; }
};

}  // namespace penstock
