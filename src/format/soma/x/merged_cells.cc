#include "format/soma/x/merged_cells.h"

#include <algorithm>

namespace penstock::format::soma {

XMergedCells::XMergedCells(const XArray& array, int64_t row_begin, int64_t row_end)
    : array_(array), row_begin_(row_begin), row_end_(row_end) {}

void XMergedCells::add(XTileId id) {
  const XFragment& fragment = array_.fragments()[id.fragment];
  const XTileBounds bounds = fragment.bounds(id.tile);
  const int64_t first = std::max(bounds.row_first, row_begin_);
  const int64_t last = std::min(bounds.row_last, row_end_ - 1);
  const uint64_t cells = fragment.cells(id.tile);
  all_ += cells;
  if (parts_.empty() || parts_.back().fragment != id.fragment) {
    parts_.push_back({id.fragment, first, last, cells});
    return;
  }
  Part& part = parts_.back();
  part.row_first = std::min(part.row_first, first);
  part.row_last = std::max(part.row_last, last);
  part.cells += cells;
}

bool XMergedCells::is_timed(const Part& part, bool repeating) const {
  const XFragment& fragment = array_.fragments()[part.fragment];
  if (array_.allows_duplicates()) return false;
  if (fragment.metadata->has_timestamps()) return fragment.general || repeating;
  return !fragment.deletes.empty();
}

uint64_t XMergedCells::timed(bool repeating) const {
  uint64_t cells = 0;
  for (const Part& part : parts_) {
    if (is_timed(part, repeating)) cells += part.cells;
  }
  return cells;
}

// A row-major fragment has its cells row by row. Cells of two fragments need merging only if both
// fragments have rows in common.
uint64_t XMergedCells::merged(bool repeating) const {
  std::vector<Part> parts = parts_;
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.row_first < b.row_first; });
  uint64_t cells = 0;
  int64_t reached = -1;  // last row of the parts so far
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const XFragment& fragment = array_.fragments()[part.fragment];
    const bool shared = part.row_first <= reached ||
                        (i + 1 < parts.size() && parts[i + 1].row_first <= part.row_last);
    if (shared || fragment.column_major || is_timed(part, repeating)) cells += part.cells;
    reached = std::max(reached, part.row_last);
  }
  return cells;
}

}  // namespace penstock::format::soma
