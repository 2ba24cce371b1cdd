#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "codec/tile/filter_pipeline.h"
#include "codec/tile/filter_step.h"

// Shared by the RLE and dictionary filters for strings of variable length. There they come first in
// the pipeline, encode the offsets too, and make the whole tile one part. Metadata:
//
//   uint32 0 | uint32 1 | uint32 characters | uint32 stored bytes | uint32 bytes of offsets | own
//
// Integers of the encodings themselves are 1, 2, 4 or 8 bytes wide, high byte first.
// Source: compression_filter.cc, (de)compress_var_string_coords.

namespace penstock::codec {

/// The decoded tile. A first pass over the encoded strings counts sizes, so allocation does not
/// rely on a header alone.
struct StringTarget {
  Buffer& characters;
  std::vector<uint64_t>& offsets;
  StringTileSize expected;
};

/// Reads and checks the shared metadata. The filter's own metadata is left in `step.metadata`.
void read_string_header(FilterStep& step, const StringTarget& target);

/// Checks the counts of the first pass, then sizes `target`.
void size_target(const FilterStep& step, StringTarget& target, uint64_t strings,
                 uint64_t characters);

/// Checks that an integer width of the encoding is 1, 2, 4 or 8.
uint8_t read_integer_width(FilterStep& step, std::string_view what);

/// `width` bytes, high byte first.
inline uint64_t read_big_endian(ByteReader& reader, uint8_t width, std::string_view what) {
  uint64_t value = 0;
  for (const std::byte byte : reader.take(width, what)) {
    value = value << 8 | std::to_integer<uint64_t>(byte);
  }
  return value;
}

}  // namespace penstock::codec
