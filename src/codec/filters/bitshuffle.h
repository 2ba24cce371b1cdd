#pragma once

#include "codec/filter_step.h"

// Bit shuffle: the bits of equal weight of many elements stand together. Blocks of 8,192 bytes,
// each on its own; within a block only a multiple of 8 elements is shuffled and the rest copied. A
// part whose size is not a multiple of both 8 and the element is stored as it was. Metadata: uint32
// parts | uint32 bytes a part. Source: bitshuffle_filter.cc; the bitshuffle library that it names.

namespace penstock::codec {

void decode_bitshuffle(FilterStep& step);

}  // namespace penstock::codec
