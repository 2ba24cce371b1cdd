#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"

// The shuffle of the Census's loaders and of tiledbsoma_ml: cells in stored order are cut into
// chunks, chunks are put in random order, some chunks are read as a block, and the rows of a block
// are shuffled. It exists for comparison and for users who want exactly that; every chunk decodes
// its unit again.
//
// A block is a bucket. Its chunks are grouped by unit: one visit for each unit, in stored order.

namespace penstock::plan {

/// Rows [begin, begin + count) among the selected rows of a unit.
struct RowRange {
  uint32_t begin = 0;
  uint32_t count = 0;
};

struct ChunkVisits {
  std::vector<Visit> visits;
  std::vector<RowRange> ranges;           ///< of all visits, ascending within one
  std::vector<size_t> range_begin = {0};  ///< of each visit, and the end
  std::vector<size_t> block_begin = {0};  ///< first visit of each block, and the end
};

/// Returns the visits of the share that options.shard names; options.chunk_rows must not be 0.
/// `units` ascend by position and hold every row from 0 on.
ChunkVisits chunk_visits(std::span<const UnitRows> units, const EpochOptions& options);

/// Returns memory for rows that is enough for any seed, epoch, rank and worker.
uint64_t least_chunk_bytes(std::span<const UnitRows> units, const EpochOptions& options,
                           uint32_t units_ahead, uint64_t page_bytes);

}  // namespace penstock::plan
