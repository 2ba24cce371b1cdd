#include "format/zarr/chunk_layout.h"

#include <penstock/error.h>

#include "base/concat.h"
#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text;
  for (const uint64_t length : shape) text += (text.empty() ? "" : " x ") + std::to_string(length);
  return text.empty() ? "one cell" : text;
}

}  // namespace

std::string ChunkKeys::key_of(std::span<const uint64_t> position) const {
  std::string key = with_c ? "c" : "";
  for (const uint64_t index : position) {
    if (!key.empty()) key += separator;
    key += std::to_string(index);
  }
  return key.empty() ? "0" : key;
}

std::string layout_text(const ArrayMetadata& array, int version) {
  std::string text = concat("zarr v", version, ", chunks of ", shape_text(array.info.chunk_shape));
  if (array.sharding) text += " in shards of " + shape_text(array.sharding->shard_shape);
  return text + ", " + array.info.pipeline.text();
}

void allow_no_chunks(chunked::ArrayInfo& info) {
  if (info.shape.size() != info.chunk_shape.size()) return;
  for (size_t d = 0; d < info.shape.size(); ++d) {
    if (info.shape[d] == 0 && info.chunk_shape[d] == 0) info.chunk_shape[d] = 1;
  }
}

char separator_of(const nlohmann::json& value) {
  if (value == ".") return '.';
  if (value == "/") return '/';
  throw CorruptData("the separator of chunk keys must be \".\" or \"/\", but is " + shown(value));
}

}  // namespace penstock::format::zarr
