#pragma once

#include "codec/tile/filter_step.h"

// No filter: data and metadata pass unchanged.

namespace penstock::codec {

void decode_none(FilterStep& step);

}  // namespace penstock::codec
