#pragma once

#include "codec/filter_step.h"

// A bzip2 stream a part.

namespace penstock::codec {

void decode_bzip2(FilterStep& step);

}  // namespace penstock::codec
