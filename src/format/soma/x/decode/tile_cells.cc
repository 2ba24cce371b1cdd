#include "format/soma/x/decode/tile_cells.h"

#include <penstock/error.h>

#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "codec/filters/byteshuffle.h"

namespace penstock::format::soma {
namespace {

/// Checks that the chunks hold `expected` bytes. Returns true if one of them ends inside a cell, as
/// in format 10 and earlier.
bool check_chunks(std::span<const std::byte> stored, uint64_t expected,
                  const tiledb::FragmentField& field) {
  const uint64_t total = field.filters->decoded_bytes(stored);
  if (total != expected) {
    throw CorruptData(
        concat("tile of ", field.name, " holds ", total, " bytes, its cells take ", expected));
  }
  bool cut = false;
  codec::Chunk chunk;
  for (codec::ChunkReader chunks(stored); chunks.next(chunk);) {
    cut |= chunk.original_bytes % field.cell_bytes() != 0;
  }
  return cut;
}

}  // namespace

XTileCells::XTileCells(const tiledb::FragmentField& field, uint32_t format_version,
                       std::span<const std::byte> stored, uint64_t cell_count,
                       XCellScratch& scratch)
    : field_(field),
      format_version_(format_version),
      stored_(stored),
      scratch_(scratch),
      cell_bytes_(field.cell_bytes()),
      cell_count_(cell_count),
      chunks_(stored) {
  const uint64_t bytes = checked_mul(cell_count, cell_bytes_, "tile size");
  chunks_cut_cells_ = check_chunks(stored, bytes, field);
}

bool XTileCells::next() {
  begin_ += count_;
  if (chunks_cut_cells_) {
    if (begin_ == cell_count_) return false;
    count_ = cell_count_;
    return true;
  }
  if (!chunks_.next(chunk_)) return false;
  count_ = chunk_.original_bytes / cell_bytes_;
  return true;
}

codec::CellBytes XTileCells::decode() {
  if (!chunks_cut_cells_) {
    return field_.filters->decode_chunk_planes(chunk_, field_.type, format_version_,
                                               scratch_.decode);
  }
  scratch_.whole.resize_discard(cell_count_ * cell_bytes_);
  field_.filters->decode(stored_, field_.type, format_version_, scratch_.whole.span(),
                         scratch_.decode, cell_bytes_);
  return {scratch_.whole.span(), false};
}

bool XTileCells::decode_runs(std::vector<codec::CellRun>& runs) {
  return !chunks_cut_cells_ && cell_bytes_ == sizeof(uint64_t) &&
         field_.filters->decode_chunk_runs(chunk_, runs);
}

std::span<const std::byte> XTileCells::plain(const codec::CellBytes& cells) {
  const bool aligned = reinterpret_cast<uintptr_t>(cells.bytes.data()) % 8 == 0;
  if (!cells.shuffled && aligned) return cells.bytes;
  scratch_.unshuffled.resize_discard(cells.bytes.size());
  if (cells.shuffled) {
    codec::unshuffle_bytes(cell_bytes_, cells.bytes, scratch_.unshuffled.span());
  } else {
    std::memcpy(scratch_.unshuffled.data(), cells.bytes.data(), cells.bytes.size());
  }
  return scratch_.unshuffled.span();
}

void decode_tile_cells(const tiledb::FragmentField& field, uint32_t format_version,
                       std::span<const std::byte> stored, uint64_t cell_count,
                       std::span<std::byte> out, XCellScratch& scratch) {
  check_chunks(stored, out.size(), field);
  if (out.size() != checked_mul(cell_count, uint64_t{field.cell_bytes()}, "tile size")) {
    throw Internal(concat("tile buffer has ", out.size(), " bytes for ", cell_count, " cells"));
  }
  field.filters->decode(stored, field.type, format_version, out, scratch.decode,
                        field.cell_bytes());
}

}  // namespace penstock::format::soma
