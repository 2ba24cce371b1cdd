#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/memory/buffer.h"
#include "codec/tile/filter_pipeline.h"
#include "io/store.h"

// The self-describing block in which TileDB stores all metadata: a header (sizes, type, filters)
// and one filtered tile. Source: format_spec/generic_tile.md, tiledb/sm/tile/generic_tile_io.cc.
//
// Free functions, no state; safe from any thread. A tile may inflate to 64 times its stored bytes
// or to `believed_bytes`, whichever is more, so that damaged headers and decompression bombs cannot
// make the reader allocate without limit. Tiles of more than 1 MiB (lists of a million data tiles)
// are decoded by up to eight threads that live for the call.

namespace penstock::format::tiledb {

/// Newest array format that this reader knows (TileDB 2.30).
inline constexpr uint32_t kNewestFormatVersion = 23;
/// From this version on, fragments name their schema and always write their footer's length (TileDB
/// 2.4).
inline constexpr uint32_t kOldestFragmentVersion = 10;

/// First bytes to read of a generic tile whose length is unknown. Most tiles are smaller and need
/// no second read.
inline constexpr uint64_t kGenericTileFirstRead = 16 * 1024;

/// For schemas, groups, metadata and enumerations. Text may shrink more than 64 times if it is very
/// repetitive (5,000 categories of 1,000 characters do so 88 times).
inline constexpr uint64_t kBelievedBytes = uint64_t{16} << 20;
/// For lists with a number for each tile, which may all be equal: of 8 million tiles. Also for all
/// metadata of one object, which has one tile for each file.
inline constexpr uint64_t kBelievedListBytes = uint64_t{64} << 20;

/// The most bytes that may inflate from `stored` ones: 64 times as many, or `believed_bytes` if
/// more.
uint64_t most_inflated(uint64_t stored, uint64_t believed_bytes) noexcept;

struct GenericTile {
  uint32_t format_version = 0;
  Buffer bytes;               ///< inflated contents
  uint64_t stored_bytes = 0;  ///< header and body
};

/// Decodes the generic tile at the start of `stored`; more bytes may follow it.
GenericTile decode_generic_tile(std::span<const std::byte> stored,
                                uint64_t believed_bytes = kBelievedBytes);

/// Reads the generic tile at `offset` of an object: one read for a small tile, two for a long one.
/// Encrypted tiles are `Unsupported`. Errors name the object and the offset.
GenericTile read_generic_tile(const io::Store& store, const std::string& path, uint64_t offset = 0,
                              uint64_t believed_bytes = kBelievedBytes);

}  // namespace penstock::format::tiledb
