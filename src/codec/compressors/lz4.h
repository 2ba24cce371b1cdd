#pragma once

#include "codec/filter_step.h"

// LZ4 block format, one block a part (no frame).

namespace penstock::codec {

void decode_lz4(FilterStep& step);

}  // namespace penstock::codec
