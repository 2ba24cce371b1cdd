#pragma once

#include "codec/filter_step.h"
#include "codec/string_tile.h"

// Run-length encoding. Of cells of fixed size, runs of
//
//   cell | run length, 2 bytes, high byte first
//
// where the cell is the tile's own, also where another filter stands before this one. Of strings of
// variable length, runs of
//
//   run length | string length | string          (own metadata: width of the one, width of the
//   other)
//
// Source: rle_compressor.{h,cc}.

namespace penstock::codec {

void decode_rle(FilterStep& step);

void decode_rle_strings(FilterStep& step, StringTarget& target);

}  // namespace penstock::codec
