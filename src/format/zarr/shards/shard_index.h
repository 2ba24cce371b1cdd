#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/range_coalescing.h"

// The index of a shard: offset and length of each chunk in it, 16 bytes a chunk, in C order, with a
// checksum. Source: zarr-specs, v3 codecs, sharding-indexed.

namespace penstock::format::zarr {

/// What the metadata say of all indexes of an array.
struct ShardIndexForm {
  uint64_t chunks = 0;  ///< of a shard, absent ones included
  bool at_start = false;
  bool checksum = false;
  bool big_endian = false;

  /// Stored size. Throws CorruptData if it overflows.
  uint64_t stored_bytes() const;
  /// Where the index of a shard lies. Throws CorruptData if the shard is too short.
  io::ByteRange place_in(uint64_t shard_bytes) const;
};

class ShardIndex {
 public:
  /// A shard that is not there: all chunks are absent.
  ShardIndex() = default;

  /// Throws CorruptData for a wrong size or checksum, and for chunks that are not within the shard.
  static ShardIndex parse(std::span<const std::byte> stored, const ShardIndexForm& form,
                          uint64_t shard_bytes);

  /// Where a chunk lies in the shard; none if it is absent.
  std::optional<io::ByteRange> chunk(uint64_t number) const;

 private:
  std::vector<io::ByteRange> chunks_;
};

}  // namespace penstock::format::zarr
