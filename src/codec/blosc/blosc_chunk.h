#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory/buffer.h"

// A chunk in the format of Blosc 1 (version byte 2), a view of stored bytes:
//
//   uint8 version | uint8 compressor's version | uint8 flags | uint8 bytes of an element
//   uint32 decoded bytes | uint32 bytes of a block | uint32 stored bytes, these 16 among them
//   uint32 a block: where it starts in the chunk
//   blocks: one stream or several of (int32 length | bytes)
//
// Blocks are shuffled and compressed separately; the last one may be shorter. A block that is
// "split" has a stream for each byte plane, or, unshuffled, for each equal share of it. A stream as
// long as its share of the block is stored as it is.
// Source: c-blosc README_CHUNK_FORMAT.rst and, where that is silent, blosc.c (1.21.6).

namespace penstock::codec {

class BloscChunk {
 public:
  /// Checks the header. Throws `CorruptData`, and `Unsupported` for Blosc 2, Snappy and versions of
  /// compressors that nothing writes.
  explicit BloscChunk(std::span<const std::byte> stored);

  /// Not more than the compressor can make of the stored bytes, so it is safe to allocate.
  uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }
  size_t element_bytes() const noexcept { return element_bytes_; }
  size_t block_bytes() const noexcept { return block_bytes_; }
  bool byte_shuffled() const noexcept { return shuffle_ == Shuffle::kBytes; }

  /// Bytes that were stored as they are, without blocks.
  bool is_plain() const noexcept { return plain_; }
  std::span<const std::byte> plain() const noexcept;

  size_t block_count() const noexcept { return block_count_; }
  uint64_t block_begin(size_t block) const noexcept { return uint64_t{block} * block_bytes_; }
  size_t block_size(size_t block) const noexcept;

  /// Decompresses a block into `out`, which must have its size; the result is still shuffled.
  /// Throws `CorruptData`.
  void decompress(size_t block, std::span<std::byte> out) const;

  /// Decompresses a block and undoes its shuffle.
  void decode(size_t block, std::span<std::byte> out, Buffer& work) const;

  /// Decodes the whole chunk into `out`. Throws `CorruptData` unless it has decoded_bytes().
  void decode_all(std::span<std::byte> out, Buffer& work) const;

 private:
  enum class Shuffle : uint8_t { kNone, kBytes, kBits };
  using Decompress = bool (*)(std::span<const std::byte> in, std::span<std::byte> out);

  void choose_compressor(uint32_t code, uint32_t version);
  void check_sizes(uint32_t stored_bytes) const;
  size_t stream_count(size_t block, size_t size) const noexcept;

  std::span<const std::byte> stored_;
  uint64_t decoded_bytes_ = 0;
  size_t block_bytes_ = 0;
  size_t block_count_ = 0;
  size_t element_bytes_ = 0;
  bool plain_ = false;
  bool split_ = false;
  Shuffle shuffle_ = Shuffle::kNone;
  const char* compressor_ = "";
  uint64_t most_expansion_ = 1;
  Decompress decompress_ = nullptr;
};

}  // namespace penstock::codec
