#pragma once

#include <cstdint>
#include <span>

#include "plan/epoch_plan.h"

// How dense some rows can be together. The rows of a unit are taken as equally dense, as the plan
// of memory takes them. Few rows may all be of the densest unit; many cannot, and all rows together
// are no denser than the selection.

namespace penstock::plan {

/// Mean packed bytes of a unit's rows.
inline double density(const UnitRows& unit) {
  return static_cast<double>(unit.packed_bytes) / unit.row_count;
}

/// Mean packed bytes a row of `row_count` rows, where they are the densest there are. 0 without
/// units. Rows beyond those of all units are as dense as the densest: a padded epoch repeats them.
/// O(units), O(units log units) where one unit does not have so many rows.
double densest_row_bytes(std::span<const UnitRows> units, uint64_t row_count);

}  // namespace penstock::plan
