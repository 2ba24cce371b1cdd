#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_reader.h"

// A stored tile is a count of chunks and the chunks. Each chunk is filtered separately. Source:
// format_spec/tile.md.

namespace penstock::codec {

/// One chunk of a stored tile, as views.
struct Chunk {
  uint32_t original_bytes = 0;
  std::span<const std::byte> metadata;
  std::span<const std::byte> data;
};

/// Walks the chunks of one stored tile without allocating:
///   for (ChunkReader chunks(stored); chunks.next(chunk);) …
/// Throws `CorruptData` unless the chunks fill `stored` exactly.
class ChunkReader {
 public:
  explicit ChunkReader(std::span<const std::byte> stored);

  uint64_t chunk_count() const noexcept { return count_; }
  bool next(Chunk& chunk);

 private:
  ByteReader reader_;
  uint64_t count_ = 0;
  uint64_t done_ = 0;
};

/// All chunks at once, for readers that fuse decoding with the next step.
std::vector<Chunk> split_chunks(std::span<const std::byte> stored);

}  // namespace penstock::codec
