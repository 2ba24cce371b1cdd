#pragma once

#include "codec/tile/filter_step.h"

// Positive delta: each value of a window is stored as its difference from the value before, the
// first value as its difference from the window's offset. Metadata:
//
//   uint32 windows | (T offset | uint32 window bytes) a window
//
// A window is stored unchanged unless it is a whole number of values. Floating point and text pass
// through.
// Source: format_spec/tile.md, Positive-Delta Encoding Filter; positive_delta_filter.cc.

namespace penstock::codec {

void decode_positive_delta(FilterStep& step);

}  // namespace penstock::codec
