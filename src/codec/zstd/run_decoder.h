#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/cell_run.h"
#include "codec/zstd/huffman.h"
#include "codec/zstd/sequences.h"

// Decodes runs of equal 8-byte cells from a Zstandard frame (RFC 8878) without writing the cells.
//
// The row column of a sparse matrix repeats each row's id for every cell of the row. Compressed, a
// change of the id is a literal or two and one long match of offset 8. So a chunk of 65,536 bytes
// takes about two hundred bytes. Expanding these with libzstd and scanning for changes took an
// eighth of all decompression. Here a match of offset 8 only moves a position.
//
// Other and unusual frames (dictionaries, checksums, several frames) are refused, and the caller
// uses libzstd. The runs of accepted frames are those of libzstd's cells; tests and a fuzz target
// compare them.

namespace penstock::codec::zstd {

class RunDecoder {
 public:
  RunDecoder();

  /// Appends the runs of the frame's cells, which have `bytes` in total; neighbouring runs of this
  /// frame differ. False if refused; `runs` is then unchanged. One thread at a time.
  bool decode(std::span<const std::byte> frame, uint64_t bytes, std::vector<CellRun>& runs);

 private:
  class Cells;

  bool decode_blocks(std::span<const uint8_t> in, size_t most_block, Cells& cells);
  bool decode_block(std::span<const uint8_t> block, size_t most_block, Cells& cells);
  bool read_literals(std::span<const uint8_t>& block) noexcept;

  RecentOffsets recent_;
  SequenceTables tables_;
  HuffmanTable huffman_;
  std::vector<uint8_t> literals_;  ///< of the block
};

}  // namespace penstock::codec::zstd
