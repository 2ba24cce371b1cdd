#pragma once

#include <cstdint>
#include <span>

#include "format/soma/x/decode/row_index.h"
#include "format/soma/x/decode/tile_decode.h"

// Merges rows whose runs overlap: cells of several fragments, of column-major or Hilbert tiles, or
// with timestamps and deletes to apply. Cells are sorted by column. If duplicates are not allowed,
// the newest cell of a place stays (by timestamp, then by the fragments' order) unless a delete
// hides it.

namespace penstock::format::soma {

/// Appends the merged rows to `merged` (stage number `merged_stage`) and updates the index.
void merge_rows(const XDecodeContext& context, std::span<const XTileStage> stages,
                std::span<const uint32_t> rows, uint32_t merged_stage, XTileStage& merged,
                XRowIndex& index);

}  // namespace penstock::format::soma
