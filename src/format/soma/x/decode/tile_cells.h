#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "codec/tile/chunk.h"
#include "codec/tile/filter_pipeline.h"
#include "format/tiledb/fragment/fragment_metadata.h"

// Reads one stored tile of a fixed-length field chunk by chunk. The cells of a chunk (64 KiB) are
// used while they are in a core's cache, and chunks without wanted cells are skipped unread.
//
//   XTileCells cells(field, version, stored, count, scratch);   checks lengths against `count`
//   while (cells.next()) if (wanted(cells.begin(), cells.count())) use(cells.decode());
//
// One thread. Views are valid until the next decode with the same scratch.

namespace penstock::format::soma {

struct XCellScratch {
  codec::DecodeScratch decode;
  Buffer whole;  ///< tiles whose chunk boundaries split cells
  Buffer unshuffled;
};

class XTileCells {
 public:
  XTileCells(const tiledb::FragmentField& field, uint32_t format_version,
             std::span<const std::byte> stored, uint64_t cell_count, XCellScratch& scratch);

  bool next();
  uint64_t begin() const noexcept { return begin_; }  ///< first cell of the chunk
  uint64_t count() const noexcept { return count_; }

  /// Decodes the chunk's cells, or their byte planes.
  codec::CellBytes decode();
  /// Appends the chunk's cells as runs of equal cells if that is faster. If it returns false, call
  /// `decode` instead. For fields of 8 bytes a cell.
  bool decode_runs(std::vector<codec::CellRun>& runs);
  /// Returns the cells that `decode` gave, 8-byte aligned, un-shuffled if need be.
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

/// Decodes all cells of a tile into `out`, whose size is cell_count * cell_bytes.
void decode_tile_cells(const tiledb::FragmentField& field, uint32_t format_version,
                       std::span<const std::byte> stored, uint64_t cell_count,
                       std::span<std::byte> out, XCellScratch& scratch);

}  // namespace penstock::format::soma
