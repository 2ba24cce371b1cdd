#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/buffer.h"
#include "codec/tile/filter_pipeline.h"

// Decodes chunks of zarr and HDF5 arrays: undoes the codecs of a chunk, from stored bytes to cells.
//
// A ChunkPipeline is immutable and shared by threads. Each thread has a ChunkScratch. Stored bytes
// are untrusted: no length in them is believed before memory is asked for, and a chunk that does
// not decode to the expected size is `CorruptData`. `decode_parts` hands over pieces that fit a
// core's cache, as byte planes where the stored form is shuffled, so that value_codes.h can
// un-shuffle and narrow in one pass.

namespace penstock::codec {

enum class ChunkFilterType : uint8_t {
  kBlosc,    ///< blosc 1: lz4, blosclz, zlib, zstd inside; shuffle, bitshuffle or neither
  kZstd,     ///< Zstandard frames
  kGzip,     ///< gzip members
  kZlib,     ///< a zlib stream (zarr's numcodecs.zlib, HDF5's deflate)
  kLz4,      ///< numcodecs.lz4: uint32 decoded size, then one LZ4 block
  kCrc32c,   ///< four bytes at the end: CRC-32C of the bytes before
  kShuffle,  ///< byte planes of cells of `element_bytes`; the rest that is no whole cell is stored
             ///< as is
  kFletcher32,  ///< four bytes at the end: Fletcher's checksum of the bytes before (HDF5)
  kLzf,         ///< h5py's LZF
};

struct ChunkFilter {
  ChunkFilterType type = ChunkFilterType::kZstd;
  uint32_t element_bytes = 0;  ///< of kShuffle
};

/// Memory that one thread reuses from chunk to chunk. Owned by the caller, opaque to it.
struct ChunkScratch {
  Buffer data[3];
};

class ChunkPipeline {
 public:
  ChunkPipeline() = default;
  /// `filters` in the order in which the writer applied them.
  explicit ChunkPipeline(std::vector<ChunkFilter> filters) : filters_(std::move(filters)) {}

  const std::vector<ChunkFilter>& filters() const noexcept { return filters_; }
  /// The filters for people: "blosc", "shuffle, zlib"; "uncompressed" if there are none.
  std::string text() const;

  /// Most bytes that `stored` bytes can decode to. UINT64_MAX: no bound is known.
  uint64_t most_decoded_bytes(uint64_t stored) const noexcept;

  /// Decodes a chunk to exactly out.size() bytes. Bit i of `skipped` says that filter i was not
  /// applied (HDF5's filter mask). Throws CorruptData.
  void decode(std::span<const std::byte> stored, uint32_t skipped, std::span<std::byte> out,
              ChunkScratch& scratch) const;

  /// Decodes a chunk whose size only its own bytes tell (strings), at most `most` bytes of it.
  /// Throws CorruptData.
  void decode_unsized(std::span<const std::byte> stored, uint32_t skipped, uint64_t most,
                      Buffer& out, ChunkScratch& scratch) const;

  /// Decodes the bytes [begin, end) of a chunk of `decoded_bytes` and hands them to `take` in
  /// ascending pieces: `take(first_byte, piece)`. Both bounds and each piece are multiples of
  /// `cell_bytes`. Pieces are views that live until `take` returns; they have 64 KiB, or 1 MiB at
  /// most where planes lie together (a block of blosc). Bytes outside are decoded only where the
  /// stored form demands it: of blosc, whole blocks are left out and not checked. Throws
  /// CorruptData, also after pieces were taken.
  void decode_parts(
      std::span<const std::byte> stored, uint32_t skipped, uint64_t decoded_bytes,
      uint32_t cell_bytes, uint64_t begin, uint64_t end, ChunkScratch& scratch,
      const std::function<void(uint64_t first_byte, const CellBytes& piece)>& take) const;

 private:
  std::vector<ChunkFilter> filters_;
};

}  // namespace penstock::codec
