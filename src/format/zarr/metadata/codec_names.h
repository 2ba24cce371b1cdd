#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "codec/chunk/chunk_pipeline.h"

// Codecs from bytes to bytes by the names of both versions: "blosc", "numcodecs.zlib", "shuffle".

namespace penstock::format::zarr {

/// The filter of that name with its settings. Throws Unsupported, with the name, for unknown ones.
codec::ChunkFilter filter_named(std::string_view name, const nlohmann::json& configuration);

/// Whether the name is that of strings of variable length.
bool is_vlen_utf8(std::string_view name);

}  // namespace penstock::format::zarr
