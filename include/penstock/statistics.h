#pragma once

#include <penstock/experiment.h>
#include <penstock/loader.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  /// Values that are not integers are summed by chunks of so many rows, which are then merged. The
  /// last bits of the result depend on it.
  uint64_t chunk_rows = uint64_t{1} << 18;
};

/// Moments of all values of each column or each row, zeros included.
struct Moments {
  std::vector<int64_t> nonzeros;          ///< values that are not 0
  std::vector<double> total;              ///< their sum
  std::vector<double> squared_deviation;  ///< sum of the squared differences from the mean
};

/// Computes moments of a matrix in one streamed pass. Integers are summed exactly, other values
/// with Welford's updates. Each column is summed in row order, so results are the same for any
/// number of threads and any budget. On top of the budget, by_column takes 32 bytes a column and
/// group (80 if there are fractions), and by_row takes 24 bytes a row.
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

  /// The sums of columns once advance() returned false, for StatisticsSum, also of another process.
  std::string sums() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Adds up the sums of passes over parts of the rows. If each part is a chunk (chunk_rows), added
/// in the order of rows, the result has the bits of one pass over all.
class StatisticsSum {
 public:
  /// As in StatisticsOptions; throws InvalidArgument for limits of another size.
  StatisticsSum(uint32_t columns, uint32_t group_count, std::vector<double> upper = {});
  ~StatisticsSum();

  /// Adds a pass's sums() and group_sizes(). `groups`: the group here of each of its groups. Throws
  /// InvalidArgument for sums of another shape.
  void add(std::string_view sums, std::span<const uint64_t> group_sizes,
           std::span<const uint32_t> groups);

  /// As of StatisticsPass.
  Moments columns() const;
  const std::vector<uint64_t>& group_sizes() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
