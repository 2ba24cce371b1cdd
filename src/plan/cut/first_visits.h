#pragma once

#include <cstdint>
#include <vector>

#include "plan/epoch_plan.h"

namespace penstock::plan {

/// Visits that feed the first batches, and the rows of each.
inline constexpr size_t kFirstVisits = 64;
inline constexpr uint32_t kFirstRows = 256;

/// Divides the first visits of a shuffled epoch, so that the first batches are from many places of
/// the store and yet come soon. kFirstVisits visits of kFirstRows rows come first: one of each of
/// the first units, or several of each if there are fewer units. The rests of those units follow,
/// then the other visits. A part is neighbours in the store; where a unit's first one begins is
/// random. Visits of fewer than 2 kFirstRows rows stay whole, and so does the one with a repeated
/// row. Of fewer than kLeastUnitsCutByRows units, parts are half as many and have twice the rows:
/// each visit costs milliseconds, and so few units are read quickly.
std::vector<Visit> divide_first_visits(std::vector<Visit> visits, const EpochOptions& options);

}  // namespace penstock::plan
