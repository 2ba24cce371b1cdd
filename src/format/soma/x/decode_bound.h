#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "format/soma/x/array.h"

// What undoing the filters of stored tiles alone costs (decompression and un-shuffling, for the
// Census's): nothing that decodes the same tiles once can be faster, whatever it does with the
// cells. For `penstock bench scale`.

namespace penstock::format::soma {

struct DecodeBound {
  double seconds = 0;         ///< of the fastest round
  uint64_t cells = 0;         ///< stored cells of the tiles that were decoded
  uint64_t array_cells = 0;   ///< of all tiles
  uint64_t stored_bytes = 0;  ///< of what was decoded
};

/// Decodes the parts of tiles, evenly spread over the array and of about `most_bytes` stored
/// bytes at most (one tile at least), from memory, by so many threads, `rounds` times. Throws
/// Unsupported where X is not a sparse array of two int64 dimensions, CorruptData for tiles that
/// are damaged.
DecodeBound measure_decode_bound(const std::string& uri, std::span<const XPart> parts,
                                 uint64_t most_bytes, unsigned threads, unsigned rounds);

}  // namespace penstock::format::soma
