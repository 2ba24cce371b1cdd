#pragma once

#include "codec/filter_step.h"

// Each part is one block in the LZ4 block format (no frame).

namespace penstock::codec {

void decode_lz4(FilterStep& step);

}  // namespace penstock::codec
