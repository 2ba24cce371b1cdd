#pragma once

#include <penstock/row_sampling.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"

// Which rows an epoch draws, in two levels: how many of each unit when the epoch is planned, which
// ones when the unit is placed.
//
//   With replacement  every draw falls on a unit in proportion to its weight (a multinomial), and
//                     within the unit on a row in proportion to its. A unit on which many more
//                     draws fall than it has rows is visited several times, so that no visit
//                     outgrows the others; one on which none falls is not read.
//   Without           each row has the key E / weight, E exponential, and the rows with the
//                     smallest keys are taken: the same as drawing one after the other in
//                     proportion to the weights that are left (P. Efraimidis, P. Spirakis,
//                     "Weighted random sampling with a reservoir", 2006).
//
// Both are exact, functions of (seed, epoch, selection, weights) alone, and the same for all ranks:
// what was drawn is then cut and shuffled as rows of any epoch are.

namespace penstock::plan {

class RowSampler {
 public:
  /// `units` in ascending order of position, `weights` (where there are some) for each of their
  /// rows. Throws InvalidArgument when there are fewer rows to draw than are asked for.
  RowSampler(std::span<const UnitRows> units, RowSampling sampling, uint64_t seed, uint64_t epoch);

  /// What to plan: units with the number of draws as their row_count, some of them several times.
  const std::vector<UnitRows>& units() const noexcept { return units_; }

  /// The rows drawn from a visit's unit, ascending, each the index among its selected rows.
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
  double last_key_ = 0;         ///< without replacement: of the last row that is drawn
  uint64_t last_position_ = 0;  ///< and its position, which decides between equal keys
};

}  // namespace penstock::plan
