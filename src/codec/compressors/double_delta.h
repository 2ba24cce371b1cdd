#pragma once

#include "codec/tile/filter_step.h"

// Double delta:
//
//   uint8 bits | uint64 number of values | first value | second value |
//   (sign, 1 bit | magnitude, `bits` bits) a further value
//
// The further values are in 64-bit words, filled from the highest bit down. If `bits` is at least
// the width of the type minus one, plain values follow the first two fields. The arithmetic wraps.
// Source: dd_compressor.cc.

namespace penstock::codec {

void decode_double_delta(FilterStep& step);

}  // namespace penstock::codec
