#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "format/chunked/array.h"
#include "format/zarr/shards/shard_index.h"

// What the metadata of an array says: `.zarray` of version 2, `zarr.json` of version 3.
// Sources: zarr-specs, v2.0 and v3 core; zarr-extensions for codecs and data types.

namespace penstock::format::zarr {

/// How chunks are named: positions with separators, "c" in front in version 3.
struct ChunkKeys {
  bool with_c = false;
  char separator = '.';

  std::string key_of(std::span<const uint64_t> position) const;
};

/// Chunks in shards: objects of many chunks with an index.
struct Sharding {
  std::vector<uint64_t> shard_shape;
  ShardIndexForm index;
};

struct ArrayMetadata {
  chunked::ArrayInfo info;
  nlohmann::json attributes;
  ChunkKeys keys;
  std::optional<Sharding> sharding;
};

/// `path` is where the array is, for messages. Both throw CorruptData for contradictions, and
/// Unsupported, with the name of what is unknown.
ArrayMetadata parse_v2_array(const nlohmann::json& zarray, nlohmann::json attributes,
                             const std::string& path);
ArrayMetadata parse_v3_array(const nlohmann::json& document, const std::string& path);

}  // namespace penstock::format::zarr
