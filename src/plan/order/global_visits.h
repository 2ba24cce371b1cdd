#pragma once

#include <cstdint>
#include <span>

#include "plan/order/chunk_visits.h"
#include "plan/order/global_order.h"

// A global order for a store that can only read whole units. The share's sequence is cut into
// blocks that fit in memory, and every unit with rows of a block is decoded for that block. With
// rows in random order nearly every unit has some, so an epoch reads the store once for each block.
//
// A block is a bucket; its visits ascend by unit.

namespace penstock::plan {

/// `units` ascend by position and hold every row from 0 on; block_rows is at least 1. Leaves ranges
/// empty: a visit's rows are the rows of its unit whose slots are in the block.
ChunkVisits global_visits(std::span<const UnitRows> units, const GlobalOrder& order,
                          uint64_t block_rows);

/// Returns the largest block size, in rows, with which two blocks fit in `budget_bytes` if rows
/// have their mean size; at least 1.
uint64_t global_block_rows(std::span<const UnitRows> units, uint64_t budget_bytes,
                           uint32_t units_ahead, uint64_t page_bytes);

}  // namespace penstock::plan
