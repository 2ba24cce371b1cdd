#pragma once

#include "codec/tile/string_tile.h"

// Dictionary encoding of strings of variable length. Data are one id a string. Own metadata:
//
//   uint8 width of ids | uint8 width of string lengths | uint32 bytes of dictionary |
//   (string length | string) an entry
//
// The specification puts a number of strings before the entries; TileDB writes none.
// Source: dict_compressor.h, compression_filter.cc.

namespace penstock::codec {

void decode_dictionary_strings(FilterStep& step, StringTarget& target);

}  // namespace penstock::codec
