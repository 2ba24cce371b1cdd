#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "format/soma/x/array.h"

// Measures the cost of undoing the filters of stored tiles alone (decompression and un-shuffling
// for the Census). Code that decodes the same tiles once cannot be faster. For `penstock bench
// scale`.

namespace penstock::format::soma {

struct DecodeBound {
  double seconds = 0;         ///< of the fastest round
  uint64_t cells = 0;         ///< stored cells of the decoded tiles
  uint64_t array_cells = 0;   ///< of all tiles
  uint64_t stored_bytes = 0;  ///< of the decoded parts
};

/// Decodes parts of tiles from memory with `threads` threads, `rounds` times. The tiles are evenly
/// spread over the array and have about `most_bytes` stored bytes at most (at least one tile).
/// Throws Unsupported unless X is a sparse array of two int64 dimensions, and CorruptData for
/// damaged tiles.
DecodeBound measure_decode_bound(const std::string& uri, std::span<const XPart> parts,
                                 uint64_t most_bytes, unsigned threads, unsigned rounds);

}  // namespace penstock::format::soma
