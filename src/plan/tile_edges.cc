#include "plan/tile_edges.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>

#include "base/concat.h"

namespace penstock::plan {
namespace {

/// Sorts with the rows stored beside the numbers, because looking rows up one by one would cost
/// more than the sort.
template <typename RowOf>
void sort_by(std::vector<uint32_t>& tiles, const RowOf& row_of) {
  const auto descends = [&](uint32_t a, uint32_t b) { return row_of(a) > row_of(b); };
  if (std::adjacent_find(tiles.begin(), tiles.end(), descends) == tiles.end()) return;
  struct Mark {
    int64_t row;
    uint32_t tile;
  };
  std::vector<Mark> marks;
  marks.reserve(tiles.size());
  for (const uint32_t tile : tiles) marks.push_back({row_of(tile), tile});
  std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.row < b.row; });
  std::transform(marks.begin(), marks.end(), tiles.begin(), [](const Mark& m) { return m.tile; });
}

}  // namespace

TileEdge TileEdge::moved_to(int64_t later_row) const {
  if (later_row == row) return *this;
  TileEdge edge = *this;
  edge.row = later_row;
  edge.begun = begun_here;
  edge.begun_bytes = begun_here_bytes;
  edge.cells_before += cells_per_row * static_cast<uint64_t>(later_row - row);
  return edge;
}

TileEdges::TileEdges(std::span<const TileRows> tiles, int64_t row_begin, int64_t row_end)
    : tiles_(tiles), row_begin_(row_begin), row_end_(row_end) {
  if (tiles.size() > std::numeric_limits<uint32_t>::max()) {
    throw Unsupported(concat("more tiles than 2^32: ", tiles.size()));
  }
  edge_.row = row_begin;
  begins_.reserve(tiles.size());
  for (uint32_t i = 0; i < tiles.size(); ++i) {
    const TileRows& tile = tiles[i];
    if (tile.row_first > tile.row_last) {
      throw InvalidArgument(
          concat("a tile's rows must ascend: ", tile.row_first, " to ", tile.row_last));
    }
    if (tile.row_last < row_begin || tile.row_first >= row_end) continue;
    begins_.push_back(i);
  }
  ends_ = begins_;
  sort_by(begins_, [&](uint32_t tile) { return begin_row(tile); });
  sort_by(ends_, [&](uint32_t tile) { return end_row(tile); });
}

// Huge counts from a hostile store are limited so that sums cannot overflow.
CellParts TileEdges::density(uint32_t tile) const {
  const auto rows = static_cast<uint64_t>(end_row(tile) - begin_row(tile));
  const uint64_t cells = std::min(tiles_[tile].cells, uint64_t{1} << 56);
  if (cells < uint64_t{1} << 43) {  // as all real tiles; 128-bit division is ten times as slow
    return ((cells << kCellPartBits) + rows - 1) / rows;
  }
  return ((CellParts{cells} << kCellPartBits) + rows - 1) / rows;
}

std::optional<TileEdge> TileEdges::next() {
  if (next_end_ == ends_.size()) return std::nullopt;
  int64_t row = end_row(ends_[next_end_]);
  if (next_begin_ < begins_.size()) row = std::min(row, begin_row(begins_[next_begin_]));

  edge_ = edge_.moved_to(row);
  edge_.begun = edge_.begun_here;
  edge_.begun_bytes = edge_.begun_here_bytes;
  for (; next_end_ < ends_.size(); ++next_end_) {
    const uint32_t tile = ends_[next_end_];
    if (end_row(tile) != row) break;
    ++edge_.ended;
    edge_.ended_bytes += tiles_[tile].stored_bytes;
    edge_.cells_per_row -= density(tile);
  }
  for (; next_begin_ < begins_.size(); ++next_begin_) {
    const uint32_t tile = begins_[next_begin_];
    if (begin_row(tile) != row) break;
    ++edge_.begun_here;
    edge_.begun_here_bytes += tiles_[tile].stored_bytes;
    edge_.cells_per_row += density(tile);
  }
  return edge_;
}

}  // namespace penstock::plan
