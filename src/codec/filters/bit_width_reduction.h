#pragma once

#include "codec/filter_step.h"

// Bit width reduction: in each window, the values less the smallest, in integers of 8, 16 or 32
// bits. Metadata:
//
//   uint32 original bytes | uint32 windows | (T smallest | uint8 bits | uint32 window bytes) a
//   window
//
// A window whose bits are the type's own, or whose bytes are no whole number of values, stands as
// it was. Types of one byte, floating point and text pass through. Source: format_spec/tile.md,
// Bit-Width Reduction Filter; bit_width_reduction_filter.cc.

namespace penstock::codec {

void decode_bit_width_reduction(FilterStep& step);

}  // namespace penstock::codec
