#pragma once

#include "codec/tile/filter_step.h"

// The parts, which all compressors share. A compressor compresses each metadata part of earlier
// filters and then each data part, one after the other, into one stream. Its own metadata:
//
//   uint32 metadata parts | uint32 data parts | (uint32 original, uint32 compressed) a part
//
// Source: format_spec/tile.md, Compression Filters; compression_filter.cc.

namespace penstock::codec {

/// Decodes one part. Must fill `out` exactly or throw `CorruptData`.
using PartDecoder = void (*)(const FilterStep& step, std::span<const std::byte> in,
                             std::span<std::byte> out);

void decode_compressed(FilterStep& step, PartDecoder decode_part);

/// "zstd: <why>, <in> compressed bytes to <out>"
[[noreturn]] void throw_bad_part(FilterType type, std::string_view why, size_t in_bytes,
                                 size_t out_bytes);

}  // namespace penstock::codec
