#pragma once

#include <cstddef>
#include <span>

#include "codec/filter_step.h"

// Zstandard frames, one or several a part. A decompression context (about 150 KiB) is made once a
// thread and kept; making one costs as much as decoding a small chunk.

namespace penstock::codec {

void decode_zstd(FilterStep& step);

/// Decompresses `in` into `out`; false when the stream is bad or does not fill `out` exactly.
bool zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace penstock::codec
