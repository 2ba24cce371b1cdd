#include "plan/fetch_unit.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/testing/test_seed.h"
#include "plan/simulated_layout.h"

namespace penstock::plan {
namespace {

using Rng = std::mt19937_64;

// Checks the invariants of a list of units in the slow way.
void check_units(const std::vector<FetchUnit>& units, const std::vector<TileRows>& tiles,
                 int64_t row_begin, int64_t row_end, const FetchUnitOptions& options) {
  int64_t row = row_begin;
  for (const FetchUnit& unit : units) {
    ASSERT_EQ(unit.row_begin, row);
    ASSERT_GT(unit.row_end, unit.row_begin);
    row = unit.row_end;
    uint64_t bytes = 0, count = 0;
    int64_t first_row = unit.row_end, last_row = unit.row_begin - 1;
    double cells = 0;
    for (const TileRows& tile : tiles) {
      const int64_t first = std::max(unit.row_begin, tile.row_first);
      const int64_t last = std::min(unit.row_end - 1, tile.row_last);
      if (first > last) continue;
      first_row = std::min(first_row, first);
      last_row = std::max(last_row, last);
      ++count;
      bytes += tile.stored_bytes;
      const int64_t whole_first = std::max(row_begin, tile.row_first);
      const int64_t whole_last = std::min(row_end - 1, tile.row_last);
      cells += static_cast<double>(tile.cells) * static_cast<double>(last - first + 1) /
               static_cast<double>(whole_last - whole_first + 1);
    }
    ASSERT_EQ(unit.tile_count, count);
    ASSERT_EQ(unit.stored_bytes, bytes);
    ASSERT_NEAR(static_cast<double>(unit.cell_bound), cells, 1.5 + cells * 1e-6);
    // One row that is too large is the least, and empty rows may come with it.
    if (unit.cell_bound > options.max_cells + 1) {
      ASSERT_LE(last_row - first_row, 0);
    }
    // Half a unit of empty rows may come before and after.
    ASSERT_LE(unit.row_end - unit.row_begin, 2 * options.max_rows);
  }
  ASSERT_EQ(row, row_end);
}

double amplification(const std::vector<FetchUnit>& units, size_t tiles) {
  uint64_t reads = 0;
  for (const FetchUnit& unit : units) reads += unit.tile_count;
  return static_cast<double>(reads) / static_cast<double>(tiles);
}

TEST(FetchUnits, CoverAndCountForRandomTiles) {
  const TestSeed seed(1);
  Rng rng(seed);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    const auto row_end = static_cast<int64_t>(1 + rng() % 3000);
    const int64_t row_begin = static_cast<int64_t>(rng()) % 2 == 0 ? 0 : row_end / 3;
    std::vector<TileRows> tiles(rng() % 200);
    const uint64_t most_rows = 1 + rng() % (round % 3 == 0 ? 1000 : 30);
    for (TileRows& tile : tiles) {
      tile.row_first = static_cast<int64_t>(rng() % static_cast<uint64_t>(row_end + 100)) - 50;
      tile.row_last = tile.row_first + static_cast<int64_t>(rng() % most_rows);
      tile.cells = rng() % 1000;
      tile.stored_bytes = rng() % 5000;
    }
    FetchUnitOptions options;
    options.min_tiles = static_cast<uint32_t>(rng() % 40);
    options.max_cells = 1 + rng() % 30000;
    options.max_rows = static_cast<int64_t>(1 + rng() % 500);
    const auto units = make_fetch_units(tiles, row_begin, row_end, options);
    check_units(units, tiles, row_begin, row_end, options);
    // Another order of the same tiles is the same store.
    std::shuffle(tiles.begin(), tiles.end(), rng);
    const auto again = make_fetch_units(tiles, row_begin, row_end, options);
    ASSERT_EQ(again.size(), units.size());
    for (size_t i = 0; i < units.size(); ++i) {
      ASSERT_EQ(again[i].row_end, units[i].row_end);
      ASSERT_EQ(again[i].cell_bound, units[i].cell_bound);
    }
  }
}

TEST(FetchUnits, CensusBandsAreReadOnce) {
  Rng rng(2);  // fixed: with others a band may have more than max_cells
  for (const double cells_per_row : {200.0, 700.0, 1200.0, 1900.0, 2600.0, 5000.0}) {
    CensusLayout layout;
    layout.cells_per_row = cells_per_row;
    layout.row_end = 300000 + 777;
    std::vector<TileRows> tiles;
    append_census_tiles(layout, rng, tiles);
    const auto units = make_fetch_units(tiles, 0, layout.row_end);
    check_units(units, tiles, 0, layout.row_end, {});
    EXPECT_LE(amplification(units, tiles.size()), 1.04) << cells_per_row;
    // From 30 tiles a band on, a unit is a band: no larger than it must be.
    if (cells_per_row < 1200) continue;
    ASSERT_EQ(units.size(), static_cast<size_t>((layout.row_end + 2047) / 2048));
    for (const FetchUnit& unit : units) EXPECT_EQ(unit.row_begin % 2048, 0);
  }
}

TEST(FetchUnits, ManyFragments) {
  const TestSeed seed(3);
  Rng rng(seed);
  for (const int fragments : {1, 2, 32, 100}) {
    std::vector<TileRows> tiles;
    const int64_t rows = 524288;
    int64_t begin = 0;
    for (int i = 0; i < fragments; ++i) {
      CensusLayout layout;
      layout.row_begin = begin;
      layout.row_end = i + 1 == fragments ? rows : rows * (i + 1) / fragments + (i * 37) % 500;
      append_census_tiles(layout, rng, tiles);
      begin = layout.row_end;
    }
    std::shuffle(tiles.begin(), tiles.end(), rng);
    const auto units = make_fetch_units(tiles, 0, rows);
    check_units(units, tiles, 0, rows, {});
    EXPECT_LE(amplification(units, tiles.size()), 1.04) << fragments;
  }
}

// Eight fragments over the same rows: every band edge cuts eight tiles, more than one in thirty of
// what a unit can hold, but other rows cut hundreds.
TEST(FetchUnits, OverlappingFragmentsAreCutAtBandsToo) {
  const TestSeed seed(7);
  Rng rng(seed);
  CensusLayout layout;
  layout.cells_per_row = 240;
  layout.row_end = 200000;
  std::vector<TileRows> tiles;
  for (int i = 0; i < 8; ++i) append_census_tiles(layout, rng, tiles);
  const auto units = make_fetch_units(tiles, 0, layout.row_end);
  check_units(units, tiles, 0, layout.row_end, {});
  EXPECT_LE(amplification(units, tiles.size()), 1.08);
  for (const FetchUnit& unit : units) EXPECT_EQ(unit.row_begin % 2048, 0);
}

TEST(FetchUnits, OddExtents) {
  const TestSeed seed(4);
  Rng rng(seed);
  for (const int64_t rows_per_band : {1, 100, 1000, 5000, 20000, 100000}) {
    for (const int space_tiles : {1, 7, 60}) {
      CensusLayout layout;
      layout.rows_per_band = rows_per_band;
      layout.space_tiles = space_tiles;
      layout.row_end = 200000;
      std::vector<TileRows> tiles;
      append_census_tiles(layout, rng, tiles);
      const auto units = make_fetch_units(tiles, 0, layout.row_end);
      check_units(units, tiles, 0, layout.row_end, {});
      const double ratio = amplification(units, tiles.size());
      // A band above max_cells (6,600 rows here) with several space tiles has to be read in pieces.
      if (rows_per_band <= 5000 || space_tiles == 1) {
        EXPECT_LE(ratio, 1.06);
      }
    }
  }
}

// Tiles scattered over rows as a Hilbert curve scatters them: squares of about the same area.
TEST(FetchUnits, HilbertLikeTilesReadNoMoreThanTheyMust) {
  const TestSeed seed(5);
  Rng rng(seed);
  std::vector<TileRows> tiles;
  const int64_t rows = 500000;
  for (int i = 0; i < 15000; ++i) {
    const auto span = static_cast<int64_t>(200 + rng() % 4000);
    const auto first = static_cast<int64_t>(rng() % static_cast<uint64_t>(rows - span));
    tiles.push_back({first, first + span, 65536, 130000});
  }
  const auto units = make_fetch_units(tiles, 0, rows);
  check_units(units, tiles, 0, rows, {});
  // Unavoidable: about (tiles across a boundary) / (tiles of the largest unit) = 66 / 180.
  EXPECT_LE(amplification(units, tiles.size()), 1.5);
}

TEST(FetchUnits, EmptyRows) {
  EXPECT_TRUE(make_fetch_units({}, 0, 0).empty());
  const auto nothing = make_fetch_units({}, 5, 100000);
  ASSERT_EQ(nothing.size(), 2u);
  EXPECT_EQ(nothing[0].tile_count, 0u);
  EXPECT_EQ(nothing[1].row_end, 100000);

  // A domain that ends near 2^63, as older stores have, is not a list of 2^47 units.
  const int64_t end = std::numeric_limits<int64_t>::max();
  const std::vector<TileRows> tiles = {{10, 20, 100, 200}, {1000, 1010, 100, 200}};
  const auto units = make_fetch_units(tiles, 0, end);
  EXPECT_LT(units.size(), 70000u);
  EXPECT_EQ(units[0].row_begin, 0);
  EXPECT_EQ(units[0].row_end, 1011);
  EXPECT_EQ(units[0].tile_count, 2u);
  EXPECT_EQ(units.back().row_end, end);
  EXPECT_THROW(make_fetch_units(tiles, 5, 4), InvalidArgument);
  EXPECT_THROW(make_fetch_units(std::vector<TileRows>{{3, 2, 1, 1}}, 0, 10), InvalidArgument);
}

TEST(FetchUnits, HostileCountsDoNotOverflow) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const int64_t end = std::numeric_limits<int64_t>::max();
  const std::vector<TileRows> tiles = {{0, end, most, most},
                                       {0, 0, most, most},
                                       {5, 5, most, most},
                                       {std::numeric_limits<int64_t>::min(), end, most, 1}};
  const auto units = make_fetch_units(tiles, 0, 1000);
  EXPECT_EQ(units.front().row_begin, 0);
  EXPECT_EQ(units.back().row_end, 1000);
}

TEST(FetchUnits, AMillionTiles) {
  const TestSeed seed(6);
  Rng rng(seed);
  CensusLayout layout;
  layout.row_end = int64_t{32} << 20;
  std::vector<TileRows> tiles;
  append_census_tiles(layout, rng, tiles);
  const auto units = make_fetch_units(tiles, 0, layout.row_end);
  EXPECT_LE(amplification(units, tiles.size()), 1.03);
}

}  // namespace
}  // namespace penstock::plan
