#pragma once

#include "codec/tile/filter_step.h"

// MD5 and SHA-256 of each part of the metadata and data of earlier filters, which pass unchanged.
// Metadata:
//
//   uint32 metadata parts | uint32 data parts | (uint64 bytes, digest) a part, metadata parts first
//
// A wrong digest is `CorruptData`. Source: checksum_md5_filter.cc.

namespace penstock::codec {

void decode_checksum(FilterStep& step);

}  // namespace penstock::codec
