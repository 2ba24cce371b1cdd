#pragma once

#include <cstdint>
#include <vector>

#include "format/soma/x/array.h"

// Bounds the cells of a fetch unit that must be merged (row_merge.h) rather than copied, from the
// bounds of its tiles. The bound does not count cells that one fragment holds twice; only decoding
// finds these.

namespace penstock::format::soma {

class XMergedCells {
 public:
  XMergedCells(const XArray& array, int64_t row_begin, int64_t row_end);

  void add(XTileId id);

  uint64_t all() const noexcept { return all_; }
  /// `repeating`: a fragment may hold a place twice.
  uint64_t merged(bool repeating) const;
  /// The same for cells that carry timestamps or delete marks.
  uint64_t timed(bool repeating) const;

 private:
  /// A fragment's part of the unit.
  struct Part {
    uint32_t fragment = 0;
    int64_t row_first = 0, row_last = 0;
    uint64_t cells = 0;
  };
  bool is_timed(const Part& part, bool repeating) const;

  const XArray& array_;
  int64_t row_begin_, row_end_;
  std::vector<Part> parts_;
  uint64_t all_ = 0;
};

}  // namespace penstock::format::soma
