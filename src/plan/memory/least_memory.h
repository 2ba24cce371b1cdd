#pragma once

#include <cstdint>
#include <span>

#include "plan/epoch_plan.h"

namespace penstock::plan {

/// Returns the memory for rows with which a spread of 1 works for any seed, epoch, rank and worker.
/// It is an upper bound over all orders of the units, so a budget that is accepted once is never
/// refused later or by one rank alone. `units_ahead` and `page_bytes` as in
/// EpochPlan::choose_spread. O(units log units).
uint64_t least_row_bytes(std::span<const UnitRows> units, const EpochOptions& options,
                         uint32_t units_ahead, uint64_t page_bytes);

}  // namespace penstock::plan
