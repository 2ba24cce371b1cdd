#include "plan/tile_edges.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <string>

namespace penstock::plan {

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
    throw Unsupported("more tiles than 2^32: " + std::to_string(tiles.size()));
  }
  edge_.row = row_begin;
  begins_.reserve(tiles.size());
  ends_.reserve(tiles.size());
  for (uint32_t i = 0; i < tiles.size(); ++i) {
    const TileRows& tile = tiles[i];
    if (tile.row_first > tile.row_last) {
      throw InvalidArgument("a tile's rows must ascend: " + std::to_string(tile.row_first) +
                            " to " + std::to_string(tile.row_last));
    }
    if (tile.row_last < row_begin || tile.row_first >= row_end) continue;
    begins_.push_back({std::max(tile.row_first, row_begin), i});
    ends_.push_back({std::min(tile.row_last, row_end - 1) + 1, i});
  }
  const auto by_row = [](const Mark& a, const Mark& b) { return a.row < b.row; };
  for (auto* marks : {&begins_, &ends_}) {
    if (!std::is_sorted(marks->begin(), marks->end(), by_row)) {
      std::sort(marks->begin(), marks->end(), by_row);
    }
  }
}

// Absurd counts from a hostile store are cut off where sums could overflow.
CellParts TileEdges::density(uint32_t tile) const {
  const int64_t first = std::max(tiles_[tile].row_first, row_begin_);
  const int64_t last = std::min(tiles_[tile].row_last, row_end_ - 1);
  const uint64_t rows = static_cast<uint64_t>(last - first) + 1;
  const uint64_t cells = std::min(tiles_[tile].cells, uint64_t{1} << 56);
  if (cells < uint64_t{1} << 43) {  // as all real tiles; 128-bit division is ten times as slow
    return ((cells << kCellPartBits) + rows - 1) / rows;
  }
  return ((CellParts{cells} << kCellPartBits) + rows - 1) / rows;
}

std::optional<TileEdge> TileEdges::next() {
  if (next_end_ == ends_.size()) return std::nullopt;
  int64_t row = ends_[next_end_].row;
  if (next_begin_ < begins_.size()) row = std::min(row, begins_[next_begin_].row);

  edge_ = edge_.moved_to(row);
  edge_.begun = edge_.begun_here;
  edge_.begun_bytes = edge_.begun_here_bytes;
  for (; next_end_ < ends_.size() && ends_[next_end_].row == row; ++next_end_) {
    const uint32_t tile = ends_[next_end_].tile;
    ++edge_.ended;
    edge_.ended_bytes += tiles_[tile].stored_bytes;
    edge_.cells_per_row -= density(tile);
  }
  for (; next_begin_ < begins_.size() && begins_[next_begin_].row == row; ++next_begin_) {
    const uint32_t tile = begins_[next_begin_].tile;
    ++edge_.begun_here;
    edge_.begun_here_bytes += tiles_[tile].stored_bytes;
    edge_.cells_per_row += density(tile);
  }
  return edge_;
}

}  // namespace penstock::plan
