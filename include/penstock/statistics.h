#pragma once

#include <penstock/experiment.h>
#include <penstock/loader.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace penstock {

struct StatisticsOptions {
  std::optional<RowSelection> rows;             ///< as in LoaderOptions
  std::optional<std::vector<int64_t>> columns;  ///< as in LoaderOptions
  /// Statistics are of what results; no tokens, no centring.
  std::shared_ptr<const TransformPlan> transforms;
  DataType dtype = DataType::kFloat64;  ///< float32 or float64, that the transforms compute in
  uint64_t memory_budget = 2_GiB;       ///< of the reading; results come on top
  unsigned threads = 0;                 ///< 0: as many as cores

  bool by_column = true, by_row = false;
  /// Columns are counted apart for each group of rows: a number below group_count for each row, by
  /// position; empty: all rows are group 0.
  std::vector<uint32_t> groups;
  uint32_t group_count = 1;
  /// Larger values of a column count as this, 0 or more: group_count x columns, or empty.
  std::vector<double> upper;
};

/// Of every value of a column, or of a row, zeros included.
struct Moments {
  std::vector<int64_t> nonzeros;          ///< values that are not 0
  std::vector<double> total;              ///< their sum
  std::vector<double> squared_deviation;  ///< sum of the squared differences from the mean
};

/// Moments of a matrix in one streamed pass. Integers are summed exactly in 64 bits, other values
/// with Welford's updates, each column in the order of the rows: the results are the same for any
/// number of threads and any budget. Memory: the budget, 24 bytes a column and group (80 where
/// there are fractions) and 24 a row when those are wanted.
class StatisticsPass {
 public:
  /// Throws as Loader does.
  StatisticsPass(const Matrix& matrix, StatisticsOptions options);
  ~StatisticsPass();

  /// Reads on for about this long; false when everything was read.
  bool advance(double seconds);
  uint64_t rows_done() const noexcept;

  /// Once advance() was false. Rows of group g are counted in the columns from g x columns on.
  Moments columns() const;
  const Moments& rows() const noexcept;
  const std::vector<uint64_t>& group_sizes() const noexcept;
  uint32_t column_count() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
