#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/vector_path.h"
#include "format/row_file/number_block.h"

// Blocks of numbers (number_block.h), each written at the width that takes the fewest bytes.
//
// Every width is tried once, from that of the largest number down, until more numbers are longer
// than exceptions may be. Comparing all 128 numbers with 2^width gives the places of the exceptions
// and, counted, the cost. Vectors compare 16 or 32 numbers at a time.

namespace penstock::format::pack {

/// One bit for each number of a block.
struct BlockMask {
  uint64_t low = 0;
  uint64_t high = 0;

  void set(size_t place) noexcept { (place < 64 ? low : high) |= uint64_t{1} << (place % 64); }
  bool has(size_t place) const noexcept {
    return ((place < 64 ? low : high) >> (place % 64) & 1) != 0;
  }
  uint32_t count() const noexcept {
    return static_cast<uint32_t>(__builtin_popcountll(low) + __builtin_popcountll(high));
  }
  BlockMask operator|(const BlockMask& other) const noexcept {
    return {low | other.low, high | other.high};
  }
};

class BlockWriter {
 public:
  explicit BlockWriter(VectorPath path = best_vector_path()) : path_(path) {}

  void clear() noexcept { used_ = 0; }
  std::span<const std::byte> bytes() const noexcept { return std::span(bytes_).first(used_); }

  /// Appends a block. All kBlockNumbers are read; numbers from `count` on must be 0.
  void append(const uint8_t* numbers, size_t count) { append_block(numbers, count, {}); }
  void append(const uint16_t* numbers, size_t count) { append_block(numbers, count, {}); }
  /// `escapes`: numbers that are 0 and become exceptions at any width; at most kMaxExceptions.
  void append(const uint32_t* numbers, size_t count, const BlockMask& escapes) {
    append_block(numbers, count, escapes);
  }

 private:
  template <typename T>
  void append_block(const T* numbers, size_t count, const BlockMask& escapes);

  VectorPath path_;
  std::vector<std::byte> bytes_;  // never shrinks, so that no bytes are cleared for a row
  size_t used_ = 0;
};

}  // namespace penstock::format::pack
