#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"

// The decoded cells of a tile, kept until the unit's rows are packed: about 3 bytes a cell.
//
// Cells keep the tile's order. A run is a sequence of cells of one row. A row of the unit is the
// sequence of its runs over all tiles; packing copies the runs straight to the row's record, so
// cells are moved once. Buffers are reused by later units. Filled by one thread, then only read.

namespace penstock::format::soma {

/// Bytes that may be read past the end of a stage's arrays, so that runs are copied by whole
/// vectors.
inline constexpr size_t kStageSlack = 64;

struct XRun {
  uint32_t row = 0;         ///< index among the unit's chosen rows
  uint32_t begin = 0;       ///< first cell
  uint32_t count = 0;       ///< cells, never 0
  uint32_t wide_begin = 0;  ///< index of its first escape in the stage's wide values
  uint32_t wide_count = 0;
  uint32_t first_index = 0;  ///< output columns at its ends, so that they need not be read again
  uint32_t last_index = 0;
};

struct XTileStage {
  std::vector<XRun> runs;
  Buffer indices;  ///< uint16 or uint32 output columns, as the row layout says
  Buffer codes;    ///< one byte a cell; unused when `raw`
  Buffer wide;     ///< values of the stored type: the escapes, or all cells if `raw`
  uint32_t cells = 0;
  uint32_t wide_count = 0;
  bool raw = false;  ///< most values escape (normalized layers): no codes, wide_begin = begin

  /// One for each cell if the array's rule for duplicates needs them, else empty.
  std::vector<uint64_t> timestamps;
  std::vector<uint8_t> deleted;  ///< 1: hides older cells of the same place and is itself no cell
  /// A place occurs twice in the tile and no timestamps were read: decode again with timestamps.
  bool wants_timestamps = false;
  uint32_t fragment = 0;  ///< index into the array's fragments, oldest first

  uint64_t memory_bytes() const noexcept {
    return sizeof(XTileStage) + runs.size() * sizeof(XRun) + indices.size() + codes.size() +
           wide.size() + timestamps.size() * sizeof(uint64_t) + deleted.size();
  }

  void clear() {
    runs.clear();
    timestamps.clear();
    deleted.clear();
    cells = 0;
    wide_count = 0;
    raw = false;
    wants_timestamps = false;
  }
};

}  // namespace penstock::format::soma
