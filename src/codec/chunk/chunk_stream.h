#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "codec/chunk/chunk_pipeline.h"

// Decodes a chunk of any size from front to back, in a megabyte for each byte of a cell. Writers of
// R put a whole matrix into one chunk: 4 GiB, which HDF5 allows at most.
//
// Byte planes are inflated side by side, each from the front of the chunk to its own place. Of
// 4-byte cells that costs two and a half times the work of one pass, of 8-byte cells four and a
// half times.

namespace penstock::codec {

/// What is stored of a chunk.
struct StoredChunk {
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
  uint32_t skipped_filters = 0;  ///< as in ChunkPipeline::decode
};

class ChunkStream {
 public:
  /// Fills `out` with stored bytes of the chunk, from `offset` on.
  using ReadStored = std::function<void(uint64_t offset, std::span<std::byte> out)>;

  /// Whether chunks with these filters can be decoded so: none, a byte shuffle of whole cells,
  /// deflate, or deflate behind such a shuffle.
  static bool decodes(const ChunkPipeline& pipeline, uint32_t cell_bytes) noexcept;

  /// `pipeline` must be one that decodes(), and `decoded_bytes` whole cells. Inflates what lies
  /// before each plane.
  ChunkStream(const ChunkPipeline& pipeline, const StoredChunk& chunk, uint32_t cell_bytes,
              ReadStored read);
  ~ChunkStream();
  ChunkStream(ChunkStream&&) noexcept;
  ChunkStream& operator=(ChunkStream&&) noexcept;

  /// Bytes that are still to come.
  uint64_t left() const noexcept { return left_; }

  /// Decodes the next out.size() bytes, at most left() and whole cells. With the last ones it
  /// checks that the stored bytes end there, too. Throws CorruptData.
  void next(std::span<std::byte> out);

  /// Decodes the next bytes and drops them.
  void skip(uint64_t bytes);

 private:
  class Plane;

  void check_end();

  size_t width_ = 1;  ///< number of planes
  uint64_t left_ = 0;
  std::vector<Plane> planes_;
  Buffer work_;
};

}  // namespace penstock::codec
