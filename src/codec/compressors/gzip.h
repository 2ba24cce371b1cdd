#pragma once

#include "codec/tile/filter_step.h"

// Each part is a zlib stream (RFC 1950; TileDB calls it gzip).

namespace penstock::codec {

void decode_gzip(FilterStep& step);

}  // namespace penstock::codec
