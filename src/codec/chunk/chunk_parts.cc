#include "codec/chunk/chunk_parts.h"

#include <algorithm>
#include <cstring>

namespace penstock::codec {
namespace {

/// Fits the cache nearest to a core together with what is made of it.
constexpr uint64_t kPieceBytes = 65536;
/// Fits the next cache. Up to here, gathering planes would cost more than it saves.
constexpr uint64_t kMostPlaneBytes = uint64_t{1} << 20;

uint64_t piece_bytes(size_t cell_bytes) noexcept {
  return std::max<uint64_t>(kPieceBytes / cell_bytes, 1) * cell_bytes;
}

/// Calls `body(begin, end)` for the pieces of [begin, end).
template <typename Body>
void for_pieces(uint64_t begin, uint64_t end, size_t cell_bytes, Body body) {
  const uint64_t step = piece_bytes(cell_bytes);
  for (uint64_t at = begin; at < end; at += step) body(at, std::min(at + step, end));
}

/// Decodes all blocks of which something is wanted before any piece is taken, because cells lie
/// across their edges.
void take_joined_blocks(const WantedPart& wanted, const BloscChunk& chunk, Buffer& blocks,
                        Buffer& work) {
  const size_t first = wanted.begin / chunk.block_bytes();
  const size_t last = (wanted.end - 1) / chunk.block_bytes();
  const uint64_t begin = chunk.block_begin(first);
  blocks.resize_discard(chunk.block_begin(last) + chunk.block_size(last) - begin);
  for (size_t block = first; block <= last; ++block) {
    chunk.decode(block,
                 blocks.span().subspan(chunk.block_begin(block) - begin, chunk.block_size(block)),
                 work);
  }
  take_cells(wanted, begin, blocks.span());
}

}  // namespace

void take_cells(const WantedPart& wanted, uint64_t first, std::span<const std::byte> cells) {
  const uint64_t begin = std::max(wanted.begin, first);
  const uint64_t end = std::min(wanted.end, first + cells.size());
  for_pieces(begin, end, wanted.cell_bytes, [&](uint64_t from, uint64_t to) {
    wanted.take(from, {cells.subspan(from - first, to - from), false});
  });
}

void take_planes(const WantedPart& wanted, uint64_t first, std::span<const std::byte> planes,
                 Buffer& work) {
  const uint64_t begin = std::max(wanted.begin, first);
  const uint64_t end = std::min(wanted.end, first + planes.size());
  if (end - begin == planes.size() && planes.size() <= kMostPlaneBytes) {
    wanted.take(first, {planes, true});
    return;
  }
  const size_t width = wanted.cell_bytes;
  const size_t cells = planes.size() / width;
  for_pieces(begin, end, width, [&](uint64_t from, uint64_t to) {
    const size_t cell = (from - first) / width;
    const size_t count = (to - from) / width;
    work.resize_discard(to - from);
    for (size_t plane = 0; plane < width; ++plane) {
      std::memcpy(work.data() + plane * count, planes.data() + plane * cells + cell, count);
    }
    wanted.take(from, {work.span(), true});
  });
}

void take_blosc(const WantedPart& wanted, const BloscChunk& chunk, Buffer& blocks, Buffer& work) {
  if (chunk.is_plain()) return take_cells(wanted, 0, chunk.plain());
  const size_t width = wanted.cell_bytes;
  if (chunk.block_bytes() % width != 0) return take_joined_blocks(wanted, chunk, blocks, work);
  const bool planes = chunk.byte_shuffled() && chunk.element_bytes() == width;
  for (size_t block = wanted.begin / chunk.block_bytes();
       block < chunk.block_count() && chunk.block_begin(block) < wanted.end; ++block) {
    const uint64_t first = chunk.block_begin(block);
    blocks.resize_discard(chunk.block_size(block));
    // Only the last block can end with a part of an element, which is no whole cell then.
    if (planes && blocks.size() % width == 0) {
      chunk.decompress(block, blocks.span());
      take_planes(wanted, first, blocks.span(), work);
    } else {
      chunk.decode(block, blocks.span(), work);
      take_cells(wanted, first, blocks.span());
    }
  }
}

}  // namespace penstock::codec
