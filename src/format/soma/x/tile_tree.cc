#include "format/soma/x/tile_tree.h"

#include <algorithm>

namespace penstock::format::soma {
namespace {

constexpr size_t kFanout = 32;

}  // namespace

XTileTree::XTileTree(std::span<const int64_t> boxes) : boxes_(boxes) {
  size_t below = boxes.size() / 4;
  while (below != 0) {
    std::vector<Hull> level((below + kFanout - 1) / kFanout);
    for (size_t i = 0; i < below; ++i) {
      const Hull child = levels_.empty() ? Hull{boxes[4 * i], boxes[4 * i + 1]} : levels_.back()[i];
      Hull& hull = level[i / kFanout];
      if (i % kFanout == 0) hull = child;
      hull.first = std::min(hull.first, child.first);
      hull.last = std::max(hull.last, child.last);
    }
    below = level.size() == 1 ? 0 : level.size();
    levels_.push_back(std::move(level));
  }
}

int64_t XTileTree::row_first() const noexcept {
  return levels_.empty() ? 0 : levels_.back()[0].first;
}

int64_t XTileTree::row_last() const noexcept {
  return levels_.empty() ? -1 : levels_.back()[0].last;
}

void XTileTree::find(int64_t row_begin, int64_t row_end, std::vector<uint64_t>& tiles) const {
  if (!levels_.empty()) visit(levels_.size() - 1, 0, row_begin, row_end, tiles);
}

void XTileTree::visit(size_t level, size_t node, int64_t row_begin, int64_t row_end,
                      std::vector<uint64_t>& tiles) const {
  const Hull& hull = levels_[level][node];
  if (hull.last < row_begin || hull.first >= row_end) return;
  const size_t begin = node * kFanout;
  if (level != 0) {
    const size_t end = std::min(begin + kFanout, levels_[level - 1].size());
    for (size_t i = begin; i < end; ++i) visit(level - 1, i, row_begin, row_end, tiles);
    return;
  }
  const size_t end = std::min(begin + kFanout, boxes_.size() / 4);
  for (size_t i = begin; i < end; ++i) {
    if (boxes_[4 * i + 1] >= row_begin && boxes_[4 * i] < row_end) tiles.push_back(i);
  }
}

}  // namespace penstock::format::soma
