#pragma once

#include "codec/tile/filter_step.h"

// XOR: each value except a part's first is stored as its bits XOR the bits of the value before.
// Metadata: uint32 parts | uint32 bytes a part. Source: xor_filter.cc.

namespace penstock::codec {

void decode_xor(FilterStep& step);

}  // namespace penstock::codec
