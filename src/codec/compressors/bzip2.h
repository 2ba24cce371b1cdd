#pragma once

#include "codec/tile/filter_step.h"

// Each part is a bzip2 stream.

namespace penstock::codec {

void decode_bzip2(FilterStep& step);

}  // namespace penstock::codec
