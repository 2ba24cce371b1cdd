#pragma once

#include <penstock/error.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "format/chunked/read_array.h"
#include "format/zarr/array_metadata.h"
#include "format/zarr/hierarchy.h"
#include "format/zarr/json_text.h"
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

/// Opens what a group has, and reads the first cells, of which none is stored.
inline void visit(const chunked::Group& group, int depth) {
  for (const std::string& name : group.members()) {
    try {
      if (const auto array = group.array(name)) {
        array->stored_bytes_per_chunk();
        const chunked::ArrayInfo& info = array->info();
        if (info.shape.size() != 1 || info.cell_bytes > 1000) continue;
        const uint64_t end = std::min<uint64_t>(info.shape[0], 100);
        if (info.strings == chunked::StringForm::kNone) {
          if (chunked::read_values(*array, 0, end, 1).size() != end * info.cell_bytes) {
            throw Internal("values of another size");
          }
        } else {
          chunked::read_strings(*array, 0, end, 1);
        }
      } else if (const auto inner = group.group(name); inner && depth < 4) {
        visit(*inner, depth + 1);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
    }
  }
}

template <typename Body>
void run_fuzzed(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
}

}  // namespace penstock::format::zarr
