#pragma once

#include <penstock/statistics.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/transform/moments.h"

// Moments of columns, from CSR batches that arrive in the order of rows.
//
// Columns are divided into ranges; add() of a range looks up its part of each row. Threads
// therefore share nothing, and a column's values are added in the order of rows for any number of
// threads.
//
// Rows come in chunks, whose sums are merged in order. So passes over single chunks, in any
// process, give together the bits of one pass over all.

namespace penstock::pipeline {

class ColumnMoments {
 public:
  /// `upper` is group_count x columns, or empty.
  ColumnMoments(uint32_t columns, uint32_t group_count, std::vector<double> upper);

  size_t range_count() const noexcept { return ranges_.size(); }

  /// Adds the range's part of rows [begin, end) of a batch. `groups` has each row's group, or is
  /// empty. Threads may add different ranges at once.
  void add(size_t range, const Batch& batch, uint32_t begin, uint32_t end,
           std::span<const uint32_t> groups);

  /// Ends a chunk.
  void end_chunk();

  /// The sums, for add_sums() of another ColumnMoments of as many columns.
  std::string sums() const;

  /// Adds the sums of one chunk, the next one. `groups`: the group here of each group there. Throws
  /// InvalidArgument if they have another shape.
  void add_sums(std::string_view sums, std::span<const uint32_t> groups);

  /// `group_sizes`: rows of each group. Values that are not stored are zeros.
  Moments moments(std::span<const uint64_t> group_sizes) const;

 private:
  struct Range {
    uint32_t begin = 0, end = 0;
    /// Moments of values that are not integers, by group; made for the first such value. Those of
    /// the chunk, and of the chunks before.
    std::vector<std::unique_ptr<kernel::RunningMoments[]>> fractions, earlier;

    uint32_t size() const noexcept { return end - begin; }
    kernel::RunningMoments fraction(uint32_t group, uint32_t column) const;
  };
  template <typename T>
  void add_values(Range& range, const Batch& batch, uint32_t begin, uint32_t end,
                  std::span<const uint32_t> groups);
  void add_fraction(Range& range, uint32_t group, uint32_t column, double value);

  uint32_t columns_;
  uint32_t group_count_;
  std::vector<double> upper_;
  std::vector<kernel::IntegerSums> integers_;  ///< group_count x columns
  std::vector<int64_t> clipped_;               ///< values above `upper`, counted as `upper`
  std::vector<Range> ranges_;
};

}  // namespace penstock::pipeline
