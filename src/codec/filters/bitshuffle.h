#pragma once

#include "codec/filter_step.h"

// Bit shuffle: bits of equal weight of many elements are stored together. Blocks of 8,192 bytes are
// shuffled separately; of each a multiple of 8 elements is shuffled and the rest copied. A part is
// stored unchanged if its size is not a multiple of both 8 and the element. Metadata: uint32 parts
// | uint32 bytes a part. Source: bitshuffle_filter.cc; the bitshuffle library that it names.

namespace penstock::codec {

void decode_bitshuffle(FilterStep& step);

}  // namespace penstock::codec
