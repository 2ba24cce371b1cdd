#pragma once

#include "codec/tile/filter_step.h"
#include "codec/tile/string_tile.h"

// Run-length encoding. Cells of fixed size are runs of
//
//   cell | run length, 2 bytes, high byte first
//
// The cell is the tile's own, even after another filter. Strings of variable length are runs of
//
//   run length | string length | string          (own metadata: the widths of the two lengths)
//
// Source: rle_compressor.{h,cc}.

namespace penstock::codec {

void decode_rle(FilterStep& step);

void decode_rle_strings(FilterStep& step, StringTarget& target);

}  // namespace penstock::codec
