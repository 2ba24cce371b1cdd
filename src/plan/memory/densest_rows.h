#pragma once

#include <cstdint>
#include <span>

#include "plan/epoch_plan.h"

// How dense a number of rows can be at most. All rows of a unit count as equally dense, as in the
// plan of memory. Few rows may all be in the densest unit, but many cannot, and all rows together
// are as dense as the selection.

namespace penstock::plan {

/// Mean packed bytes of a unit's rows.
inline double density(const UnitRows& unit) {
  return static_cast<double>(unit.packed_bytes) / unit.row_count;
}

/// Returns the mean packed bytes of the densest `row_count` rows; 0 without units. Rows beyond
/// those of all units are as dense as the densest, because a padded epoch repeats them. O(units),
/// or O(units log units) if no single unit has so many rows.
double densest_row_bytes(std::span<const UnitRows> units, uint64_t row_count);

}  // namespace penstock::plan
