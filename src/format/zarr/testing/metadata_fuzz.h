#pragma once

#include <penstock/error.h>

#include <memory>
#include <string>
#include <string_view>

#include "format/chunked/testing/visit_group.h"
#include "format/zarr/hierarchy.h"
#include "format/zarr/metadata/array_metadata.h"
#include "format/zarr/metadata/json_text.h"
#include "io/memory_store.h"

// What the fuzz targets of both versions share.

namespace penstock::format::zarr {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What the readers of an array rely on.
inline void expect_consistent(const ArrayMetadata& array) {
  const chunked::ArrayInfo& info = array.info;
  if (info.fill_value.size() != info.cell_bytes) throw Internal("a fill value of another size");
  if (info.layout.empty()) throw Internal("no layout");
  info.cells();
  info.decoded_bytes();
  info.chunk_count();
  if (!array.sharding) return;
  for (size_t d = 0; d < info.shape.size(); ++d) {
    if (array.sharding->shard_shape[d] % info.chunk_shape[d] != 0) throw Internal("odd shards");
  }
}

using chunked::run_fuzzed;
using chunked::visit_group;

}  // namespace penstock::format::zarr
