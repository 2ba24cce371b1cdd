#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "base/vector_path.h"
#include "format/cells/code_values.h"
#include "format/cells/column_map.h"
#include "format/soma/x/array.h"
#include "format/soma/x/decode/tile_cells.h"
#include "format/soma/x/decode/tile_stage.h"
#include "format/soma/x/row_map.h"
#include "kernel/packed_row.h"

// Decodes one stored tile into its stage: chosen rows and columns, narrowed, values coded.
//
// Two paths have the same result. `decode_tile_runs` is for cells in row-major order that are all
// visible. It decodes rows first, as runs, then columns and values chunk by chunk straight into the
// stage, and skips chunks without chosen rows. `decode_tile_general` takes every layout and applies
// time travel and deletes cell by cell. Pure except for `stage` and `scratch`, which one thread
// uses at a time. Stored bytes are not trusted: ids are checked against the tile's bounds, lengths
// against its cells.

namespace penstock::format::soma {

/// Data that all tiles of a reader share.
struct XDecodeContext {
  const XArray& array;
  const ColumnMap& columns;
  const kernel::PackedRowLayout& layout;
  VectorPath path = best_vector_path();
};

/// The stored bytes of a tile, by XPart; empty for parts that are not read.
struct XTileBytes {
  std::span<const std::byte> parts[kXPartCount];
  std::span<const std::byte> operator[](XPart part) const {
    return parts[static_cast<size_t>(part)];
  }
};

/// Memory that one thread reuses for all tiles: about 1 MiB for tiles of 65,536 cells.
struct XTileScratch {
  XCellScratch cells;
  std::vector<uint32_t> run_begins;
  std::vector<codec::CellRun> runs;  ///< of the current chunk
  Buffer indices;
  Buffer codes;
  Buffer values;
  CellEscapes escapes;
  // General tiles only.
  Buffer rows;
  Buffer columns;
  Buffer timestamps;
  Buffer delete_timestamps;
  std::vector<uint8_t> keep;
  std::vector<std::pair<uint64_t, uint32_t>> order;
};

void decode_tile_runs(const XDecodeContext& context, XTileId id, const XTileBytes& bytes,
                      const XRowMap& rows, XTileScratch& scratch, XTileStage& stage);

void decode_tile_general(const XDecodeContext& context, XTileId id, const XTileBytes& bytes,
                         const XRowMap& rows, XTileScratch& scratch, XTileStage& stage);

/// Whether decode_tile_runs can take the tile.
bool can_decode_runs(const XArray& array, XTileId id);

/// Returns the memory of an XTileScratch while it decodes the tile.
uint64_t scratch_bytes(const XArray& array, XTileId id);

}  // namespace penstock::format::soma
