#pragma once

#include "codec/tile/filter_step.h"

// Float scale: a value is stored as the integer round((value - offset) / scale) of 1, 2, 4 or 8
// bytes, and decoded to scale * integer + offset in double precision. Cells of 4 bytes are treated
// as float32 and of 8 as float64, whatever their type.
// Metadata: uint32 parts | uint32 stored bytes a part. Source: float_scaling_filter.cc.

namespace penstock::codec {

void decode_scale_float(FilterStep& step);

}  // namespace penstock::codec
