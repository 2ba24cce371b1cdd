#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "codec/filter_pipeline.h"
#include "codec/filter_step.h"

// What the RLE and dictionary filters share where they encode strings of variable length: they come
// first in the pipeline, swallow the offsets, and make one part of the whole tile. Metadata:
//
//   uint32 0 | uint32 1 | uint32 characters | uint32 stored bytes | uint32 bytes of offsets | own
//
// Integers of the encodings themselves are 1, 2, 4 or 8 bytes wide, high byte first.
// Source: compression_filter.cc, (de)compress_var_string_coords.

namespace penstock::codec {

/// The tile as the caller wants it. Sizes are known from a first pass over the encoded strings, so
/// nothing is allocated on the word of a header alone.
struct StringTarget {
  Buffer& characters;
  std::vector<uint64_t>& offsets;
  StringTileSize expected;
};

/// Reads and checks the shared metadata; what is left in `step.metadata` is the filter's own.
void read_string_header(FilterStep& step, const StringTarget& target);

/// Checks what the first pass counted, then sizes `target`.
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
