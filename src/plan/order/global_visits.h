#pragma once

#include <cstdint>
#include <span>

#include "plan/order/chunk_visits.h"
#include "plan/order/global_order.h"

// A global order where only whole units can be read: the share's sequence is cut in blocks that fit
// in memory, and every unit that has rows of a block is decoded for it. With rows in random order
// that is nearly every unit for every block, so an epoch reads the store as often as there are
// blocks.
//
// A block is a bucket; its visits ascend by unit.

namespace penstock::plan {

/// `units` ascend by position and hold every row from 0 on; block_rows is 1 or more. No ranges: a
/// visit's rows are those of its unit whose slots are in the block.
ChunkVisits global_visits(std::span<const UnitRows> units, const GlobalOrder& order,
                          uint64_t block_rows);

/// The most rows of a block with which two of them fit in `budget_bytes` when rows are as large as
/// their mean; at least 1.
uint64_t global_block_rows(std::span<const UnitRows> units, uint64_t budget_bytes,
                           uint32_t units_ahead, uint64_t page_bytes);

}  // namespace penstock::plan
