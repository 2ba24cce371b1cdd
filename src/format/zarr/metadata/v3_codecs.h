#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "codec/chunk/chunk_pipeline.h"
#include "format/chunked/array.h"
#include "format/zarr/shards/shard_index.h"

// The codecs of an array of version 3: any that order the cells, one from cells to bytes, any from
// bytes to bytes. The one in the middle may be a shard, which has codecs of its own for each chunk.

namespace penstock::format::zarr {

struct V3Codecs {
  bool big_endian = false;
  std::vector<codec::ChunkFilter> filters;

  bool sharded = false;
  std::vector<uint64_t> chunk_shape;  ///< of the chunks in shards
  ShardIndexForm index;               ///< without the number of chunks
};

/// `info` has shape and type. Throws Unsupported, with the name, for codecs that are not read.
V3Codecs parse_v3_codecs(const nlohmann::json& codecs, const chunked::ArrayInfo& info);

}  // namespace penstock::format::zarr
