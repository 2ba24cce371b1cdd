#pragma once

#include "codec/filter_step.h"

// A zlib stream (RFC 1950; TileDB calls it gzip) a part.

namespace penstock::codec {

void decode_gzip(FilterStep& step);

}  // namespace penstock::codec
