#pragma once

#include <cstddef>

#include "codec/tile/filter_step.h"

// Bit shuffle: bits of equal weight of many elements are stored together. Blocks of 8,192 bytes are
// shuffled separately; of each a multiple of 8 elements is shuffled and the rest copied. A part is
// stored unchanged if its size is not a multiple of both 8 and the element. Metadata: uint32 parts
// | uint32 bytes a part. Source: bitshuffle_filter.cc; the bitshuffle library that it names.

namespace penstock::codec {

void decode_bitshuffle(FilterStep& step);

/// Converts one block of bit rows to `count` elements of `element_bytes` bytes; `count` must be a
/// multiple of 8. Row 8 k + b of `in` has bit b of byte k of all elements, 8 elements a byte. The
/// blocks must not overlap.
void unshuffle_bits(size_t element_bytes, size_t count, const std::byte* in,
                    std::byte* out) noexcept;

}  // namespace penstock::codec
