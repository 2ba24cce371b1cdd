#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/chunked/array.h"

// The grid of an array's chunks: how many there are, and which numbers are where.

namespace penstock::format::chunked {

class ChunkGrid {
 public:
  /// Throws CorruptData for a shape that cannot be addressed (expect_sound).
  explicit ChunkGrid(const ArrayInfo& info);

  uint64_t count() const noexcept { return count_; }
  size_t dimensions() const noexcept { return lengths_.size(); }
  /// Chunks along a dimension.
  uint64_t length(size_t dimension) const noexcept { return lengths_[dimension]; }
  /// Position of a chunk; `position` has an entry a dimension.
  void position_of(uint64_t chunk, std::span<uint64_t> position) const noexcept;

 private:
  std::vector<uint64_t> lengths_;
  uint64_t count_ = 1;
};

/// Most chunks of an array. Real ones have fewer than 10^7.
inline constexpr uint64_t kMostChunks = uint64_t{1} << 32;

/// Most dimensions: as many as numpy has.
inline constexpr size_t kMostDimensions = 64;

/// Throws CorruptData unless shape and chunk shape have as many dimensions, no chunk is empty, and
/// cells, bytes and chunks can be counted. Call it before anything is allocated for an array.
void expect_sound(const ArrayInfo& info);

}  // namespace penstock::format::chunked
