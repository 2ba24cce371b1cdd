#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/fetch_unit.h"

// Tiles of made-up stores, for tests: like the R-trees of real layouts.

namespace penstock::plan {

struct CensusLayout {
  int64_t rows_per_band = 2048;
  int space_tiles = 30;       ///< across the genes
  uint64_t capacity = 65536;  ///< cells of a tile
  double cells_per_row = 1900;
  int64_t row_begin = 0;  ///< of the fragment; the bands start at multiples of their size
  int64_t row_end = 0;
};

/// One fragment in row-major order of space tiles, cut by capacity at any place.
inline void append_census_tiles(const CensusLayout& layout, std::mt19937_64& rng,
                                std::vector<TileRows>& tiles) {
  TileRows open;
  uint64_t cells = 0;
  const auto flush = [&] {
    if (cells == 0) return;
    open.cells = cells;
    open.stored_bytes = cells * 2 + rng() % 1000;
    tiles.push_back(open);
    cells = 0;
  };
  const int64_t band_rows = layout.rows_per_band;
  for (int64_t band = layout.row_begin / band_rows * band_rows; band < layout.row_end;
       band += band_rows) {
    const int64_t first = std::max(band, layout.row_begin);
    const int64_t rows = std::min(band + band_rows, layout.row_end) - first;
    for (int i = 0; i < layout.space_tiles; ++i) {
      const double mean = layout.cells_per_row * static_cast<double>(rows) / layout.space_tiles;
      const auto count =
          static_cast<uint64_t>(mean * (0.3 + 1.4 * static_cast<double>(rng() % 1000) / 1000.0));
      for (uint64_t done = 0; done < count;) {
        const uint64_t part = std::min(count - done, layout.capacity - cells);
        const auto row_of = [&](uint64_t cell) {
          return first + static_cast<int64_t>(cell * static_cast<uint64_t>(rows) / count);
        };
        if (cells == 0) open = {row_of(done), row_of(done), 0, 0};
        open.row_first = std::min(open.row_first, row_of(done));
        open.row_last = std::max(open.row_last, row_of(done + part - 1));
        cells += part;
        done += part;
        if (cells == layout.capacity) flush();
      }
    }
  }
  flush();
}

}  // namespace penstock::plan
