#pragma once

#include <cstddef>
#include <span>

#include "codec/tile/filter_step.h"

// Each part is one block in the LZ4 block format (no frame).

namespace penstock::codec {

void decode_lz4(FilterStep& step);

/// Decompresses one block into `out`. False if the block is bad, does not fill `out` exactly, or
/// one of both has 2 GiB or more.
bool lz4_decompress(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace penstock::codec
