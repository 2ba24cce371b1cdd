#pragma once

#include "codec/filter_step.h"

// No filter: data and metadata pass.

namespace penstock::codec {

void decode_none(FilterStep& step);

}  // namespace penstock::codec
