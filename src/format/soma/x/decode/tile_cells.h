#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "codec/chunk.h"
#include "codec/filter_pipeline.h"
#include "format/tiledb/fragment/fragment_metadata.h"

// Walks one stored tile of a fixed-length field chunk by chunk, so that the cells of a chunk (64
// KiB) are used while they lie in a core's cache, and chunks that nobody wants are skipped unread.
//
//   XTileCells cells(field, version, stored, count, scratch);   checks lengths against `count`
//   while (cells.next()) if (wanted(cells.begin(), cells.count())) use(cells.decode());
//
// One thread; views are valid until the next decode with the same scratch.

namespace penstock::format::soma {

struct XCellScratch {
  codec::DecodeScratch decode;
  Buffer whole;  ///< tiles whose chunks cut cells
  Buffer unshuffled;
};

class XTileCells {
 public:
  XTileCells(const tiledb::FragmentField& field, uint32_t format_version,
             std::span<const std::byte> stored, uint64_t cell_count, XCellScratch& scratch);

  bool next();
  uint64_t begin() const noexcept { return begin_; }  ///< first cell of the chunk
  uint64_t count() const noexcept { return count_; }

  /// The chunk's cells, or the byte planes of them.
  codec::CellBytes decode();
  /// Appends the chunk's cells as runs of equal ones, where that is the quicker way. False: take
  /// `decode`. For fields of 8 bytes a cell.
  bool decode_runs(std::vector<codec::CellRun>& runs);
  /// Cells that `decode` gave, un-shuffled if need be, 8-byte aligned.
  std::span<const std::byte> plain(const codec::CellBytes& cells);

 private:
  const tiledb::FragmentField& field_;
  uint32_t format_version_;
  std::span<const std::byte> stored_;
  XCellScratch& scratch_;
  uint64_t cell_bytes_;
  uint64_t cell_count_;
  bool chunks_cut_cells_ = false;
  codec::ChunkReader chunks_;
  codec::Chunk chunk_;
  uint64_t begin_ = 0;
  uint64_t count_ = 0;
};

/// All cells of a tile into `out`, whose size is cell_count * cell_bytes.
void decode_tile_cells(const tiledb::FragmentField& field, uint32_t format_version,
                       std::span<const std::byte> stored, uint64_t cell_count,
                       std::span<std::byte> out, XCellScratch& scratch);

}  // namespace penstock::format::soma
