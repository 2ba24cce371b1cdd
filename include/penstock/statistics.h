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
  /// Statistics are of the transformed values; no tokens, no centring.
  std::shared_ptr<const TransformPlan> transforms;
  DataType dtype = DataType::kFloat64;  ///< float32 or float64; transforms compute in it
  uint64_t memory_budget = 2_GiB;       ///< for reading; results need memory on top
  std::shared_ptr<KeptRows> kept;       ///< as in LoaderOptions
  unsigned threads = 0;                 ///< 0: as many as cores

  bool by_column = true, by_row = false;
  /// The group of each row, by position, below group_count. Each group has its own moments of
  /// columns. Empty: all rows are in group 0.
  std::vector<uint32_t> groups;
  uint32_t group_count = 1;
  /// Upper limits, 0 or more, to which larger values are clipped: group_count x columns, or empty.
  std::vector<double> upper;
};

/// Moments of all values of each column or each row, zeros included.
struct Moments {
  std::vector<int64_t> nonzeros;          ///< values that are not 0
  std::vector<double> total;              ///< their sum
  std::vector<double> squared_deviation;  ///< sum of the squared differences from the mean
};

/// Computes moments of a matrix in one streamed pass. Integers are summed exactly in 64 bits, other
/// values with Welford's updates. Each column is summed in row order, so results are the same for
/// any number of threads and any budget. On top of the budget, by_column takes 24 bytes a column
/// and group (80 if there are fractions), and by_row takes 24 bytes a row.
class StatisticsPass {
 public:
  /// Throws as Loader does.
  StatisticsPass(const Matrix& matrix, StatisticsOptions options);
  ~StatisticsPass();

  /// Reads for about this long; false when everything was read.
  bool advance(double seconds);
  uint64_t rows_done() const noexcept;

  /// Complete once advance() returned false. Entry g x columns + c has column c in group g.
  Moments columns() const;
  const Moments& rows() const noexcept;
  const std::vector<uint64_t>& group_sizes() const noexcept;
  uint32_t column_count() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
