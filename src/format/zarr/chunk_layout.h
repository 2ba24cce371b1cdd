#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "format/zarr/metadata/array_metadata.h"

// What the parsers of both versions share.

namespace penstock::format::zarr {

/// ArrayInfo::layout: "zarr v3, chunks of 125605 in shards of 64309760, blosc".
std::string layout_text(const ArrayMetadata& array, int version);

/// A dimension without cells may have chunks of length 0, since there are none: length 1 is set.
void allow_no_chunks(chunked::ArrayInfo& info);

/// A separator of chunk keys. Throws CorruptData for others than "." and "/".
char separator_of(const nlohmann::json& value);

}  // namespace penstock::format::zarr
