#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/fetch_unit.h"

// The rows where a boundary between units may lie, in ascending order, each with the facts that a
// unit which starts or ends there needs. Only rows where a tile starts or has just ended can be
// best, because between two of them the tiles that a boundary cuts do not change.

namespace penstock::plan {

/// Cells are counted in 1/2^20, so that a tile's cells spread over its rows stay exact enough.
using CellParts = unsigned __int128;
inline constexpr unsigned kCellPartBits = 20;

struct TileEdge {
  int64_t row = 0;
  uint32_t begun = 0;  ///< tiles whose first row is smaller
  uint32_t ended = 0;  ///< tiles whose last row is smaller
  uint64_t begun_bytes = 0;
  uint64_t ended_bytes = 0;
  CellParts cells_before = 0;   ///< cells in smaller rows
  CellParts cells_per_row = 0;  ///< from here to the next edge
  uint32_t begun_here = 0;      ///< tiles whose first row is this or smaller
  uint64_t begun_here_bytes = 0;

  uint32_t cut_tiles() const noexcept { return begun - ended; }
  /// The same at a later row that is before the next edge.
  TileEdge moved_to(int64_t later_row) const;
};

/// Streams the edges of a set of tiles, clamped to [row_begin, row_end). The cost is sorting: none
/// for tiles in row order, otherwise O(n log n). Holds 8 bytes a tile, and 16 more while unordered
/// tiles are sorted.
class TileEdges {
 public:
  TileEdges(std::span<const TileRows> tiles, int64_t row_begin, int64_t row_end);

  std::optional<TileEdge> next();

 private:
  int64_t begin_row(uint32_t tile) const { return std::max(tiles_[tile].row_first, row_begin_); }
  int64_t end_row(uint32_t tile) const { return std::min(tiles_[tile].row_last, row_end_ - 1) + 1; }
  CellParts density(uint32_t tile) const;

  std::span<const TileRows> tiles_;
  int64_t row_begin_, row_end_;
  std::vector<uint32_t> begins_, ends_;  // tiles by begin_row and by end_row
  size_t next_begin_ = 0, next_end_ = 0;
  TileEdge edge_;
};

}  // namespace penstock::plan
