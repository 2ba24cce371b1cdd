#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Variable-length strings of a zarr chunk, as the codec vlen-utf8 stores them: uint32 count, then
// for each string uint32 length and its bytes. Source: zarr-extensions, codecs/vlen-utf8.

namespace penstock::codec {

/// Appends the strings of a chunk. `offsets` gets the end of each string in `characters`.
/// Throws CorruptData unless the chunk holds exactly `count` strings of valid UTF-8 and nothing
/// else.
void decode_vlen_utf8(std::span<const std::byte> chunk, uint64_t count,
                      std::vector<std::byte>& characters, std::vector<uint64_t>& offsets);

}  // namespace penstock::codec
