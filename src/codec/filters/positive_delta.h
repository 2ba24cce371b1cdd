#pragma once

#include "codec/filter_step.h"

// Positive delta: in each window, the difference of every value to the one before, the first to the
// window's own offset. Metadata:
//
//   uint32 windows | (T offset | uint32 window bytes) a window
//
// A window of no whole number of values stands as it was. Floating point and text pass through.
// Source: format_spec/tile.md, Positive-Delta Encoding Filter; positive_delta_filter.cc.

namespace penstock::codec {

void decode_positive_delta(FilterStep& step);

}  // namespace penstock::codec
