#pragma once

#include "codec/filter_step.h"

// MD5 and SHA-256 over every part of the metadata and data that earlier filters left; both pass
// unchanged. Metadata:
//
//   uint32 metadata parts | uint32 data parts | (uint64 bytes, digest) a part, metadata parts first
//
// A digest that differs is `CorruptData`. Source: checksum_md5_filter.cc.

namespace penstock::codec {

void decode_checksum(FilterStep& step);

}  // namespace penstock::codec
