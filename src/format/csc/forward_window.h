#pragma once

#include <cstdint>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"

// A stored array of one dimension, read once from front to back: whole chunks, as many at a time as
// a window has. Each chunk is decoded once.

namespace penstock::format {

class ForwardWindow {
 public:
  /// A window has `cells` cells, rounded to whole chunks, and one chunk at least.
  ForwardWindow(const chunked::Array& array, uint64_t cells, unsigned threads);

  /// Cells of a full window.
  uint64_t length() const noexcept { return length_; }

  /// Reads the window that has `cell`, unless it is there. Returns whether it read.
  bool move_to(uint64_t cell);
  /// The cells in memory.
  uint64_t begin() const noexcept { return begin_; }
  uint64_t end() const noexcept { return end_; }
  /// Plain little-endian cells of the window.
  const Buffer& cells() const noexcept { return cells_; }

  /// Gives the memory back.
  void release();

 private:
  const chunked::Array& array_;
  uint64_t length_;
  unsigned threads_;
  uint64_t begin_ = 0, end_ = 0;
  Buffer cells_;
};

}  // namespace penstock::format
