#pragma once

#include "codec/filter_step.h"

// Float scale: a value is stored as the integer round((value - offset) / scale) of 1, 2, 4 or 8
// bytes, and comes back as scale * integer + offset, computed in double precision. Cells of 4 bytes
// are taken for float32 and of 8 for float64, whatever their type is called.
// Metadata: uint32 parts | uint32 stored bytes a part. Source: float_scaling_filter.cc.

namespace penstock::codec {

void decode_scale_float(FilterStep& step);

}  // namespace penstock::codec
