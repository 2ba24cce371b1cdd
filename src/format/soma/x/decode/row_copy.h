#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/soma/x/decode/row_index.h"
#include "format/soma/x/decode/tile_stage.h"
#include "kernel/packed_row.h"

// Copies the runs of a row to its packed record (kernel/packed_row.h). Stateless; stages are only
// read.

namespace penstock::format::soma {

/// Finds a stage by number: tiles come first, then merged rows.
struct XStages {
  std::span<const XTileStage> tiles;
  std::span<const XTileStage> merged;
  const XTileStage& operator[](uint32_t stage) const noexcept {
    return stage < tiles.size() ? tiles[stage] : merged[stage - tiles.size()];
  }
};

/// Copies the values of a run in the stored type; codes are widened.
void copy_run_values(const XTileStage& stage, const XRowRun& run,
                     const kernel::PackedRowLayout& layout, std::byte* out);

/// `wide_count`: the escapes of all runs, or kernel::kRawRow.
void pack_runs(const XStages& stages, std::span<const XRowRun> runs, uint32_t nnz,
               uint32_t wide_count, const kernel::PackedRowLayout& layout, std::byte* destination);

}  // namespace penstock::format::soma
