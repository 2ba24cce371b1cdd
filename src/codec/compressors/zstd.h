#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "codec/cell_run.h"
#include "codec/tile/chunk.h"
#include "codec/tile/filter_step.h"

// Each part is one or several Zstandard frames. Each thread keeps its decompression context (about
// 150 KiB), because making one costs as much as decoding a small chunk.

namespace penstock::codec {

void decode_zstd(FilterStep& step);

/// Appends the runs of a chunk's 8-byte cells if zstd is its only filter: see zstd/run_decoder.h.
/// False if the frame is bad or runs would not be faster.
bool decode_zstd_runs(const Chunk& chunk, std::vector<CellRun>& runs);

/// Decompresses `in` into `out`. False if the stream is bad or does not fill `out` exactly.
bool zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out);

/// Decompresses `in`, whose frames may not say their size, into `out`. False if a frame is bad, or
/// they make more than `most` bytes.
bool zstd_decompress_unsized(std::span<const std::byte> in, uint64_t most, Buffer& out);

}  // namespace penstock::codec
