#pragma once

#include "codec/filter_step.h"

// Run-length encoding of cells of fixed size: runs of
//   cell | run length, 2 bytes, high byte first
// The cell is the tile's own, also where another filter stands before this one. Strings of variable
// length are encoded otherwise: string_filters.h. Source: rle_compressor.cc.

namespace penstock::codec {

void decode_rle(FilterStep& step);

}  // namespace penstock::codec
