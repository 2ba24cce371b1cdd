#pragma once

#include <penstock/row_sampling.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"

// Which rows an epoch draws, in two levels: how many of each unit when the epoch is planned, and
// which ones when the unit is placed.
//
//   With replacement  every draw falls on a unit in proportion to its weight (a multinomial), and
//                     within the unit on a row in proportion to its weight. A unit with many more
//                     draws than rows is visited several times, so that no visit outgrows the
//                     others. A unit without draws is not read.
//   Without           each row has the key E / weight, E exponential, and the rows with the
//                     smallest keys are taken: the same as drawing one after the other in
//                     proportion to the weights that are left (P. Efraimidis, P. Spirakis,
//                     "Weighted random sampling with a reservoir", 2006).
//
// Both are exact and depend on (seed, epoch, selection, weights) alone, so all ranks draw the same
// rows. The drawn rows are then cut and shuffled like rows of any epoch.

namespace penstock::plan {

class RowSampler {
 public:
  /// `units` ascend by position; `weights`, if any, has one for each of their rows. Throws
  /// InvalidArgument if there are fewer rows to draw than asked for.
  RowSampler(std::span<const UnitRows> units, RowSampling sampling, uint64_t seed, uint64_t epoch);

  /// Units to plan, with the number of draws as their row_count; some occur several times.
  const std::vector<UnitRows>& units() const noexcept { return units_; }

  /// Returns the rows drawn from a visit's unit, ascending, as indices among its selected rows.
  std::vector<uint32_t> rows(const Visit& visit) const;

  uint64_t fingerprint() const noexcept { return sampling_.fingerprint(); }

 private:
  void draw_with_replacement(std::span<const UnitRows> units);
  void draw_without_replacement(std::span<const UnitRows> units);
  void add_unit(const UnitRows& unit, uint64_t draws);
  uint64_t weight_of(const UnitRows& unit) const;
  template <typename Row>
  void for_each_key(uint64_t begin, uint64_t end, Row&& row) const;
  bool is_drawn(double key, uint64_t position) const noexcept;

  RowSampling sampling_;
  uint64_t seed_;
  uint64_t epoch_;
  std::vector<UnitRows> units_;
  double last_key_ = 0;         ///< without replacement: key of the last row drawn
  uint64_t last_position_ = 0;  ///< and its position, which decides between equal keys
};

}  // namespace penstock::plan
