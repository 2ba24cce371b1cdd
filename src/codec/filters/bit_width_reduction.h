#pragma once

#include "codec/tile/filter_step.h"

// Bit width reduction: each window has the values minus the smallest, in integers of 8, 16 or 32
// bits. Metadata:
//
//   uint32 original bytes | uint32 windows |
//   (T smallest | uint8 bits | uint32 window bytes) a window
//
// A window is stored unchanged if its bits are the type's own, or if its bytes are not a whole
// number of values. Types of one byte, floating point and text pass through. Source:
// format_spec/tile.md, Bit-Width Reduction Filter; bit_width_reduction_filter.cc.

namespace penstock::codec {

void decode_bit_width_reduction(FilterStep& step);

}  // namespace penstock::codec
