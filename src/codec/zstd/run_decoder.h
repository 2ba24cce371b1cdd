#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/cell_run.h"
#include "codec/zstd/huffman.h"
#include "codec/zstd/sequences.h"

// Runs of equal 8-byte cells straight from a Zstandard frame (RFC 8878), without writing the cells.
//
// The row column of a sparse matrix repeats each row's id for every cell of the row. Compressed,
// that is a literal or two where the id changes and one long match of offset 8: some two hundred
// bytes for a chunk of 65,536, which libzstd expands and a scan for changes reads again: an eighth
// of all decompression. Here a match of offset 8 only moves a position.
//
// Frames of another kind, and everything that is not usual (dictionaries, checksums, several
// frames), are refused: the caller then takes libzstd, whose word is final. Whatever is taken gives
// what libzstd gives; the tests and a fuzz target compare them.

namespace penstock::codec::zstd {

class RunDecoder {
 public:
  RunDecoder();

  /// Appends the runs of the cells that `frame` holds, `bytes` in all, to `runs`; neighbouring runs
  /// of this frame differ. False: refused, and `runs` is as it was. One thread at a time.
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
