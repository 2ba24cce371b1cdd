#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Finds the tiles of a fragment that hold rows of an interval: a tree over the tiles in stored
// order, each node the hull of 32 nodes below it. It takes about half a byte a tile. A look-up in a
// well-ordered fragment visits a few nodes a level. Immutable after construction.

namespace penstock::format::soma {

class XTileTree {
 public:
  XTileTree() = default;
  /// `boxes`: row min, row max, column min, column max of each tile. They must outlive the tree.
  explicit XTileTree(std::span<const int64_t> boxes);

  /// Appends the numbers of tiles that touch rows [row_begin, row_end), ascending.
  void find(int64_t row_begin, int64_t row_end, std::vector<uint64_t>& tiles) const;

  int64_t row_first() const noexcept;  ///< 0 without tiles
  int64_t row_last() const noexcept;   ///< -1 without tiles

 private:
  struct Hull {
    int64_t first = 0, last = 0;
  };
  void visit(size_t level, size_t node, int64_t row_begin, int64_t row_end,
             std::vector<uint64_t>& tiles) const;

  std::span<const int64_t> boxes_;
  std::vector<std::vector<Hull>> levels_;  // levels_[0]: hulls of 32 tiles each
};

}  // namespace penstock::format::soma
