#include "plan/fetch_unit.h"

#include <penstock/error.h>

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "plan/tile_edges.h"

namespace penstock::plan {
namespace {

// Empty rows make at most this many units. Otherwise a domain of 2^63 rows with few written would
// become a list of 2^47 units.
constexpr int64_t kMostEmptyUnits = 1 << 16;

class UnitCutter {
 public:
  UnitCutter(std::span<const TileRows> tiles, int64_t row_begin, int64_t row_end,
             const FetchUnitOptions& options)
      : edges_(tiles, row_begin, row_end),
        row_begin_(row_begin),
        row_end_(row_end),
        min_tiles_(std::max(options.min_tiles, 1u)),
        max_rows_(std::max<int64_t>(options.max_rows, 1)),
        max_cells_(CellParts{std::max<uint64_t>(options.max_cells, 1)} << kCellPartBits) {}

  std::vector<FetchUnit> cut() {
    const TileEdge* first = peek(0);
    if (first == nullptr) {
      add_empty_units(row_begin_, row_end_);
      return std::move(units_);
    }
    while (first != nullptr) {
      begin_stretch(*first);
      while (!cut_unit()) {
      }
      first = peek(0);
    }
    end_rows();
    return std::move(units_);
  }

 private:
  // ---- edges not yet behind start_, in a window that grows as far as a unit may reach

  const TileEdge* peek(size_t index) {
    while (window_.size() - window_begin_ <= index) {
      const auto edge = edges_.next();
      if (!edge) return nullptr;
      window_.push_back(*edge);
    }
    return &window_[window_begin_ + index];
  }

  void drop_until(int64_t row) {
    while (window_begin_ < window_.size() && window_[window_begin_].row <= row) ++window_begin_;
    if (window_begin_ > 4096 && window_begin_ * 2 > window_.size()) {
      window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(window_begin_));
      window_begin_ = 0;
    }
  }

  bool many_empty(int64_t rows) const { return rows > max_rows_ / 2; }

  // ---- stretches: runs of rows without many empty ones between tiles

  void begin_stretch(const TileEdge& first) {
    const int64_t row = units_.empty() ? row_begin_ : units_.back().row_end;
    start_ = first;
    if (many_empty(first.row - row)) {
      add_empty_units(row, first.row);
    } else if (units_.empty() && row < first.row) {
      start_.row = row;  // no tiles and no cells between the two
      start_.begun_here = start_.begun;
      start_.begun_here_bytes = start_.begun_bytes;
      start_.cells_per_row = 0;
    }
    stretch_begin_ = units_.size();
  }

  void end_rows() {
    const int64_t row = units_.back().row_end;
    if (many_empty(row_end_ - row)) {
      add_empty_units(row, row_end_);
    } else {
      units_.back().row_end = row_end_;
    }
  }

  void add_empty_units(int64_t begin, int64_t end) {
    const int64_t rows = std::max(max_rows_, (row_end_ - row_begin_) / kMostEmptyUnits);
    for (int64_t row = begin; row < end; row += std::min(rows, end - row)) {
      FetchUnit unit;
      unit.row_begin = row;
      unit.row_end = row + std::min(rows, end - row);
      units_.push_back(unit);
    }
  }

  // ---- one unit

  uint32_t tiles_to(const TileEdge& edge) const { return edge.begun - start_.ended; }
  bool is_over(const TileEdge& edge) const {
    return edge.row - start_.row > max_rows_ ||
           edge.cells_before - start_.cells_before > max_cells_;
  }
  bool is_half(const TileEdge& edge) const {
    return edge.row - start_.row >= max_rows_ / 2 ||
           edge.cells_before - start_.cells_before >= max_cells_ / 2;
  }
  bool is_better(const TileEdge& a, const TileEdge& b) const {
    return uint64_t{a.cut_tiles()} * tiles_to(b) < uint64_t{b.cut_tiles()} * tiles_to(a);
  }

  /// Adds a unit that begins at start_; true when it ends the stretch.
  bool cut_unit() {
    const TileEdge end = choose_end();
    drop_until(end.row);
    const bool ends_stretch = end.begun_here == end.ended && is_followed_by_nothing(end.row, 0);
    FetchUnit unit = unit_between(start_, end);
    if (ends_stretch && joins_previous(end)) {
      unit = unit_between(previous_start_, end);
      units_.pop_back();
    }
    units_.push_back(unit);
    previous_start_ = start_;
    start_ = end;
    return ends_stretch;
  }

  /// Whether no tile starts soon; `next` is the edge after `row`.
  bool is_followed_by_nothing(int64_t row, size_t next) {
    const TileEdge* edge = peek(next);
    return edge == nullptr || many_empty(edge->row - row);
  }

  static FetchUnit unit_between(const TileEdge& begin, const TileEdge& end) {
    constexpr CellParts kOne = CellParts{1} << kCellPartBits;
    FetchUnit unit;
    unit.row_begin = begin.row;
    unit.row_end = end.row;
    unit.cell_bound =
        static_cast<uint64_t>((end.cells_before - begin.cells_before + kOne - 1) / kOne);
    unit.stored_bytes = end.begun_bytes - begin.ended_bytes;
    unit.tile_count = end.begun - begin.ended;
    return unit;
  }

  /// Whether the rest of a stretch is too small for a unit and the unit before has room for it.
  bool joins_previous(const TileEdge& end) const {
    return units_.size() > stretch_begin_ && tiles_to(end) < min_tiles_ &&
           end.row - previous_start_.row <= max_rows_ &&
           end.cells_before - previous_start_.cells_before <= max_cells_;
  }

  TileEdge choose_end() {
    std::optional<TileEdge> good;
    uint64_t horizon = 0;
    TileEdge last = start_;  // the last edge that the unit may reach
    for (size_t i = 0;; ++i) {
      const TileEdge* found = peek(i);
      if (found == nullptr || is_over(*found)) break;
      const TileEdge edge = *found;
      if (edge.row <= start_.row) continue;
      last = edge;
      const uint64_t tiles = tiles_to(edge);
      if (good && tiles > horizon) return *good;
      if (edge.begun_here == edge.ended && is_followed_by_nothing(edge.row, i + 1)) return edge;
      if (good) {
        if (edge.cut_tiles() < good->cut_tiles()) good = edge;
      } else if (tiles >= min_tiles_ && edge.cut_tiles() * uint64_t{kGoodTilesPerCut} <= tiles) {
        good = edge;
        horizon = tiles + tiles / 4;
      }
    }
    if (good) return *good;
    return best_of_second_half(last);
  }

  TileEdge best_of_second_half(const TileEdge& last) {
    TileEdge best = last.moved_to(farthest_row(last));
    for (size_t i = 0;; ++i) {
      const TileEdge* edge = peek(i);
      if (edge == nullptr) return best;
      // Too large by a single row, but a unit has at least one row.
      if (edge->row == best.row) best = *edge;
      if (is_over(*edge)) return best;
      if (edge->row > start_.row && is_half(*edge) && is_better(*edge, best)) best = *edge;
    }
  }

  /// The last row at which the unit is not too large; `edge` is the last edge before it.
  int64_t farthest_row(const TileEdge& edge) const {
    int64_t rows = max_rows_ - (edge.row - start_.row);
    if (edge.cells_per_row > 0) {
      const CellParts room = max_cells_ - (edge.cells_before - start_.cells_before);
      const CellParts fitting = room / edge.cells_per_row;
      if (fitting < static_cast<CellParts>(rows)) rows = static_cast<int64_t>(fitting);
    }
    const int64_t end = std::min(rows, row_end_ - edge.row) + edge.row;
    return std::max(end, start_.row + 1);
  }

  TileEdges edges_;
  int64_t row_begin_, row_end_;
  uint32_t min_tiles_;
  int64_t max_rows_;
  CellParts max_cells_;
  std::vector<TileEdge> window_;
  size_t window_begin_ = 0;
  TileEdge start_, previous_start_;
  size_t stretch_begin_ = 0;  ///< units before the stretch
  std::vector<FetchUnit> units_;
};

}  // namespace

std::vector<FetchUnit> make_fetch_units(std::span<const TileRows> tiles, int64_t row_begin,
                                        int64_t row_end, const FetchUnitOptions& options) {
  if (row_end < row_begin || row_begin < 0) {
    throw InvalidArgument(
        concat("rows of a store must ascend from 0 or more: [", row_begin, ", ", row_end, ")"));
  }
  return UnitCutter(tiles, row_begin, row_end, options).cut();
}

}  // namespace penstock::plan
