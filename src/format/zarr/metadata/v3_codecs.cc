#include "format/zarr/metadata/v3_codecs.h"

#include <penstock/error.h>

#include "base/concat.h"
#include "format/zarr/metadata/codec_names.h"
#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayInfo;
using chunked::StringForm;
using codec::ChunkFilterType;
using nlohmann::json;

/// A codec is a name alone or an object of name and configuration.
std::string name_of_codec(const json& codec) {
  return codec.is_string() ? codec.get<std::string>() : text_field(codec, "name");
}

const json& configuration_of(const json& codec) {
  static const json none = json::object();
  if (codec.is_string()) return none;
  const json& configuration = field(codec, "configuration");
  return configuration.is_null() ? none : configuration;
}

const json& list_of(const json& codecs, std::string_view what) {
  if (!codecs.is_array() || codecs.empty()) {
    throw CorruptData(concat(what, " must be a list, but is ", shown(codecs)));
  }
  return codecs;
}

/// Bytes of the numbers in which the byte order is that of the codec.
uint32_t swapped_bytes(const ArrayInfo& info) {
  if (info.strings == StringForm::kFixedUtf32) return 4;
  return info.strings == StringForm::kNone ? info.cell_bytes : 1;
}

bool is_big_endian(const json& configuration, uint32_t number_bytes) {
  const json& endian = field(configuration, "endian");
  if (endian.is_null() && number_bytes <= 1) return false;
  if (endian == "little") return false;
  if (endian == "big") return true;
  throw CorruptData("endian of the codec bytes must be little or big, but is " + shown(endian));
}

void expect_identity(const json& configuration, size_t dimensions) {
  const json& order = field(configuration, "order");
  if (order == "C" || dimensions <= 1) return;
  if (!order.is_array() || order.size() != dimensions) {
    throw Unsupported("codec transpose with order " + shown(order) + " is not read" +
                      std::string(kWriteAgain));
  }
  for (size_t d = 0; d < dimensions; ++d) {
    if (order[d] != d) {
      throw Unsupported("codec transpose with order " + shown(order) + " is not read" +
                        std::string(kWriteAgain));
    }
  }
}

ShardIndexForm index_of(const json& configuration) {
  ShardIndexForm index;
  const json& location = field(configuration, "index_location");
  index.at_start = location == "start";
  if (!index.at_start && !location.is_null() && location != "end") {
    throw CorruptData("index_location must be start or end, but is " + shown(location));
  }
  const json& codecs = list_of(field(configuration, "index_codecs"), "index_codecs");
  if (name_of_codec(codecs[0]) != "bytes") {
    throw Unsupported("index codec " + shown(json(name_of_codec(codecs[0]))) +
                      " is not read, only bytes and crc32c" + std::string(kWriteAgain));
  }
  index.big_endian = is_big_endian(configuration_of(codecs[0]), 8);
  for (size_t i = 1; i < codecs.size(); ++i) {
    const std::string name = name_of_codec(codecs[i]);
    if (name != "crc32c" || i != 1) {
      throw Unsupported("index codec " + shown(json(name)) + " is not read, only bytes and crc32c" +
                        std::string(kWriteAgain));
    }
    index.checksum = true;
  }
  return index;
}

/// Codecs of an array (`shards` is true) or of the chunks in its shards.
V3Codecs parse(const json& codecs, const ArrayInfo& info, bool shards) {
  V3Codecs result;
  bool serialized = false;
  for (const json& codec : list_of(codecs, "codecs")) {
    const std::string name = name_of_codec(codec);
    const json& configuration = configuration_of(codec);
    if (!serialized && name == "transpose") {
      expect_identity(configuration, info.shape.size());
    } else if (!serialized && name == "sharding_indexed" && shards) {
      result = parse(field(configuration, "codecs"), info, false);
      result.sharded = true;
      result.chunk_shape = lengths(field(configuration, "chunk_shape"), "chunk_shape of shards");
      result.index = index_of(configuration);
      serialized = true;
    } else if (!serialized && name == "bytes") {
      if (info.strings == StringForm::kVlenUtf8) {
        throw CorruptData("strings of variable length must have the codec vlen-utf8, not bytes");
      }
      result.big_endian = is_big_endian(configuration, swapped_bytes(info));
      serialized = true;
    } else if (!serialized && is_vlen_utf8(name)) {
      if (info.strings != StringForm::kVlenUtf8) {
        throw CorruptData("codec vlen-utf8 must have data type string");
      }
      serialized = true;
    } else {
      if (!serialized || result.sharded) {
        throw Unsupported(concat("codec ", shown(json(name)), " is not read ",
                                 serialized ? "around shards" : "where it is", kWriteAgain));
      }
      result.filters.push_back(filter_named(name, configuration));
    }
  }
  if (!serialized) throw CorruptData("no codec makes bytes of cells: " + shown(codecs));
  return result;
}

}  // namespace

V3Codecs parse_v3_codecs(const json& codecs, const ArrayInfo& info) {
  return parse(codecs, info, true);
}

}  // namespace penstock::format::zarr
