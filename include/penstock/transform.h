#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

// Transforms of each cell's values while batches are made (docs/design/0006). A plan is a list of
// steps that are applied in order. Each step gets the columns and values that the previous one
// returned. A plan is plain data: pass it in LoaderOptions, and the loader checks it.

namespace penstock {

struct TransformStep {
  enum class Kind : uint8_t {
    kNormalizeTotal,  ///< value / (total / target); a cell whose total is 0 stays as it is
    kLog1p,           ///< log(1 + value) / divisor
    kExpm1,           ///< exp(value * divisor) - 1
    kClip,            ///< to [low, high]
    kBinarize,        ///< 1 where value > low, else 0
    kScale,           ///< (value - mean) / scale, by column
    kColumns,         ///< choose and reorder columns
  };
  using Numbers = std::shared_ptr<const std::vector<double>>;

  Kind kind = Kind::kLog1p;
  double target = 1e4;
  double divisor = 1;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  /// kNormalizeTotal: totals by position in the row selection; null: the sum of the cell's values
  /// at this step.
  Numbers row_totals;
  Numbers scale;  ///< kScale: one a column, not 0
  Numbers mean;   ///< kScale: one a column, or null for no centring; dense batches only
  /// kColumns: for each column the number of its new column, or -1 to leave it out. A new column
  /// without an old one is zero.
  std::shared_ptr<const std::vector<int32_t>> places;
  uint32_t columns = 0;  ///< kColumns: number of new columns
};

/// Ranks the columns with a value above zero by value / total x target / median, descending, as
/// Geneformer's tokenizer does. Ties are ordered by ascending column.
struct RankTokens {
  double target = 1e4;
  std::vector<double> medians;  ///< by column; a column with 0 or less has no token
  std::vector<int64_t> tokens;  ///< by column
  uint32_t max_tokens = 2048;   ///< columns of the batch, first and last token included
  int64_t pad = 0;
  std::optional<int64_t> first, last;  ///< tokens added at the two ends
  TransformStep::Numbers row_totals;   ///< as in TransformStep
  DataType dtype = DataType::kInt64;   ///< of the batch: int32 or int64
};

struct TransformPlan {
  std::vector<TransformStep> steps;
  /// If set, batches are dense matrices of tokens, one row a cell. Batch::lengths() has the number
  /// of tokens of each.
  std::optional<RankTokens> tokens;

  bool empty() const noexcept { return steps.empty() && !tokens; }
};

}  // namespace penstock
