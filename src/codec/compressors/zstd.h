#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codec/cell_run.h"
#include "codec/chunk.h"
#include "codec/filter_step.h"

// Zstandard frames, one or several a part. A decompression context (about 150 KiB) is made once a
// thread and kept; making one costs as much as decoding a small chunk.

namespace penstock::codec {

void decode_zstd(FilterStep& step);

/// The runs of a chunk's 8-byte cells, where zstd is its only filter: see zstd/run_decoder.h.
/// False: it is not a frame that this pays for, or a bad one.
bool decode_zstd_runs(const Chunk& chunk, std::vector<CellRun>& runs);

/// Decompresses `in` into `out`; false when the stream is bad or does not fill `out` exactly.
bool zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace penstock::codec
