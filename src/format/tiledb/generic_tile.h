#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/buffer.h"
#include "codec/filter_pipeline.h"
#include "io/store.h"

// The self-describing block in which TileDB keeps all metadata: a header (sizes, type, filters) and
// one filtered tile. Source: format_spec/generic_tile.md, tiledb/sm/tile/generic_tile_io.cc.
//
// Free functions, no state; safe from any thread. A tile may inflate to 64 times its stored bytes,
// and in any case to `believed_bytes`: neither a damaged header nor a bomb makes the reader
// allocate at will. Tiles of more than 1 MiB (lists of a million data tiles) are decoded by up to
// eight threads that live for the call.

namespace penstock::format::tiledb {

/// Newest array format that this reader knows (TileDB 2.30).
inline constexpr uint32_t kNewestFormatVersion = 23;
/// Fragments name their schema and always write their footer's length from here on (TileDB 2.4).
inline constexpr uint32_t kOldestFragmentVersion = 10;

/// What is read of a generic tile before its length is known; most are smaller and need no second
/// read.
inline constexpr uint64_t kGenericTileFirstRead = 16 * 1024;

/// Schemas, groups, metadata and enumerations: text, of which little may be alike enough to shrink
/// more than 64 times (5,000 categories of 1,000 characters do so 88 times).
inline constexpr uint64_t kBelievedBytes = uint64_t{16} << 20;
/// Lists with a number for each tile, which may all be the same: of 8 million tiles. Also all
/// metadata of one object, which are as many tiles as there are files.
inline constexpr uint64_t kBelievedListBytes = uint64_t{64} << 20;

/// How many bytes may have come of so many stored ones: 64 times as many, or `believed_bytes`.
uint64_t most_inflated(uint64_t stored, uint64_t believed_bytes) noexcept;

struct GenericTile {
  uint32_t format_version = 0;
  Buffer bytes;               ///< inflated contents
  uint64_t stored_bytes = 0;  ///< header and body, as they lie in the object
};

/// Decodes the generic tile at the start of `stored` (more bytes may follow it).
GenericTile decode_generic_tile(std::span<const std::byte> stored,
                                uint64_t believed_bytes = kBelievedBytes);

/// Reads the generic tile at `offset` of an object: one read when it is small, two when it is long.
/// Encrypted tiles are `Unsupported`. Errors name the object and the offset.
GenericTile read_generic_tile(const io::Store& store, const std::string& path, uint64_t offset = 0,
                              uint64_t believed_bytes = kBelievedBytes);

}  // namespace penstock::format::tiledb
