#include <penstock/error.h>

#include <algorithm>

#include "base/checked.h"
#include "base/concat.h"
#include "format/chunked/chunk_grid.h"
#include "format/zarr/chunk_layout.h"
#include "format/zarr/metadata/array_metadata.h"
#include "format/zarr/metadata/cell_type.h"
#include "format/zarr/metadata/fill_value.h"
#include "format/zarr/metadata/metadata_field.h"
#include "format/zarr/metadata/v3_codecs.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayInfo;
using nlohmann::json;

constexpr std::string_view kFields[] = {
    "zarr_format",     "node_type",          "shape",
    "data_type",       "chunk_grid",         "codecs",
    "fill_value",      "attributes",         "storage_transformers",
    "dimension_names", "chunk_key_encoding", "consolidated_metadata"};

/// A field that is not known must not be ignored unless it says so (v3 core, Extension points).
void expect_known_fields(const json& document) {
  for (const auto& [name, value] : document.items()) {
    if (std::find(std::begin(kFields), std::end(kFields), name) != std::end(kFields)) continue;
    if (value.is_object() && field(value, "must_understand") == false) continue;
    throw Unsupported("the field " + shown(json(name)) + " of zarr.json is not known" +
                      std::string(kWriteAgain));
  }
}

void set_grid(ArrayInfo& info, const json& grid) {
  if (const std::string name = text_field(grid, "name"); name != "regular") {
    throw Unsupported("chunk grid " + shown(json(name)) + " is not read, only regular" +
                      std::string(kWriteAgain));
  }
  info.chunk_shape =
      lengths(field(field(grid, "configuration"), "chunk_shape"), "chunk_shape of the grid");
  allow_no_chunks(info);
}

ChunkKeys keys_of(const json& encoding) {
  const bool plain = encoding.is_string();
  const auto name = plain ? encoding.get<std::string>() : text_field(encoding, "name");
  ChunkKeys keys;
  if (name == "default") {
    keys = {true, '/'};
  } else if (name != "v2") {
    throw Unsupported("chunk key encoding " + shown(json(name)) +
                      " is not read, only default and v2" + std::string(kWriteAgain));
  }
  if (plain) return keys;
  if (const json& settings = field(encoding, "configuration"); !settings.is_null()) {
    const json& separator = field(settings, "separator");
    if (!separator.is_null()) keys.separator = separator_of(separator);
  }
  return keys;
}

/// The chunks of the grid are shards: makes those in them the chunks of the array.
void divide_shards(ArrayMetadata& array, const V3Codecs& codecs) {
  ArrayInfo& info = array.info;
  if (codecs.chunk_shape.size() != info.chunk_shape.size()) {
    throw CorruptData(concat("chunks in shards must have ", info.chunk_shape.size(),
                             " dimensions, but have ", codecs.chunk_shape.size()));
  }
  Sharding sharding{info.chunk_shape, codecs.index};
  sharding.index.chunks = 1;
  for (size_t d = 0; d < info.chunk_shape.size(); ++d) {
    const uint64_t chunk = codecs.chunk_shape[d];
    if (chunk == 0 || info.chunk_shape[d] % chunk != 0) {
      throw CorruptData(
          concat("the length of a shard must be a multiple of that of its chunks, "
                 "but in dimension ",
                 d, " they are ", info.chunk_shape[d], " and ", chunk));
    }
    sharding.index.chunks = checked_mul(sharding.index.chunks, info.chunk_shape[d] / chunk,
                                        "the number of chunks in a shard");
  }
  sharding.index.stored_bytes();
  info.chunk_shape = codecs.chunk_shape;
  array.sharding = std::move(sharding);
}

ArrayMetadata parse(const json& document, const std::string& path) {
  ArrayMetadata array;
  ArrayInfo& info = array.info;
  info.path = path;
  if (field(document, "zarr_format") != 3) {
    throw Unsupported("zarr_format must be 3 in zarr.json, but is " +
                      shown(field(document, "zarr_format")));
  }
  expect_known_fields(document);
  info.shape = lengths(field(document, "shape"), "shape");
  set_grid(info, field(document, "chunk_grid"));
  set_v3_type(info, field(document, "data_type"));
  array.keys = keys_of(field(document, "chunk_key_encoding"));
  if (const json& transformers = field(document, "storage_transformers");
      !transformers.is_null() && !transformers.empty()) {
    throw Unsupported("storage transformers " + shown(transformers) + " are not read" +
                      std::string(kWriteAgain));
  }
  chunked::expect_sound(info);
  const V3Codecs codecs = parse_v3_codecs(field(document, "codecs"), info);
  if (codecs.sharded) divide_shards(array, codecs);
  info.big_endian = codecs.big_endian;
  info.pipeline = codec::ChunkPipeline(codecs.filters);
  chunked::expect_sound(info);
  set_fill_value(info, field(document, "fill_value"));
  const json& attributes = field(document, "attributes");
  array.attributes = attributes.is_object() ? attributes : json::object();
  info.layout = layout_text(array, 3);
  return array;
}

}  // namespace

ArrayMetadata parse_v3_array(const json& document, const std::string& path) {
  return with_place([&] { return parse(document, path); }, [&] { return path; });
}

}  // namespace penstock::format::zarr
