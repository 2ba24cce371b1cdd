#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/memory/buffer.h"
#include "codec/blosc/blosc_chunk.h"
#include "codec/tile/filter_pipeline.h"

// Cuts a decoded chunk, or a chunk that only has to be un-shuffled, into the pieces that
// ChunkPipeline::decode_parts hands over.

namespace penstock::codec {

using TakePiece = std::function<void(uint64_t first_byte, const CellBytes& piece)>;

/// The bytes [begin, end) of a chunk, both multiples of `cell_bytes`.
struct WantedPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t cell_bytes = 1;
  const TakePiece& take;
};

/// Hands over what is wanted of `cells`, which start at byte `first` of the chunk.
void take_cells(const WantedPart& wanted, uint64_t first, std::span<const std::byte> cells);

/// The same for byte planes of whole cells. Planes that are wanted in part, or that are too large
/// for a cache, are gathered in `work`, a piece at a time.
void take_planes(const WantedPart& wanted, uint64_t first, std::span<const std::byte> planes,
                 Buffer& work);

/// Decodes the blocks of which something is wanted, to planes where possible.
void take_blosc(const WantedPart& wanted, const BloscChunk& chunk, Buffer& blocks, Buffer& work);

}  // namespace penstock::codec
