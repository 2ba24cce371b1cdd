#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Fetch units: contiguous rows that one read brings at an amplification near 1 (design, section 5).
//
// Units are made from the tiles' row intervals alone, in any format, by one sweep over the rows
// where tiles start and end. A unit has at least `min_tiles` tiles. It ends at the first boundary
// that cuts few of its tiles (1 in kGoodTilesPerCut), or at a better one a little later. If there
// is none before the unit is full, it ends at the best boundary of its second half. A store written
// in row bands is therefore read band by band. Pure; the same tiles give the same units for any
// budget, seed or thread count.

namespace penstock::plan {

/// Rows and size of one stored tile.
struct TileRows {
  int64_t row_first = 0;  ///< lowest row of any cell in the tile
  int64_t row_last = 0;   ///< highest, inclusive
  uint64_t cells = 0;
  uint64_t stored_bytes = 0;  ///< of all columns that are read
};

struct FetchUnit {
  int64_t row_begin = 0;
  int64_t row_end =
      0;  ///< half open; units are ascending and cover [row_begin, row_end) of the store
  uint64_t cell_bound =
      0;  ///< estimate of the cells in these rows: a tile's cells are spread evenly over its rows
  uint64_t stored_bytes = 0;  ///< of the distinct tiles that touch the unit
  uint32_t tile_count = 0;
};

/// A boundary is good if it cuts at most one in so many tiles of the unit before it.
inline constexpr uint32_t kGoodTilesPerCut = 30;

struct FetchUnitOptions {
  uint32_t min_tiles = 30;  ///< a tile that a boundary cuts is read twice: 1 / 30 is the waste
  uint64_t max_cells = uint64_t{12}
                       << 20;  ///< a unit of more cells is cut by rows, whatever that costs
  int64_t max_rows = int64_t{1} << 16;
};

/// Makes units over rows [row_begin, row_end) from tiles in any order. Rows without tiles belong to
/// a neighbouring unit or, if they are many, to their own units without tiles. Tiles outside the
/// rows are ignored. O(n) for tiles in row order, otherwise O(n log n). Throws InvalidArgument if
/// row_end < row_begin or a tile's rows do not ascend.
std::vector<FetchUnit> make_fetch_units(std::span<const TileRows> tiles, int64_t row_begin,
                                        int64_t row_end, const FetchUnitOptions& options = {});

}  // namespace penstock::plan
