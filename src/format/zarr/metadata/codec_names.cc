#include "format/zarr/metadata/codec_names.h"

#include <penstock/error.h>

#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using codec::ChunkFilter;
using codec::ChunkFilterType;
using nlohmann::json;

constexpr std::string_view kPrefix = "numcodecs.";

struct NamedFilter {
  std::string_view name;
  ChunkFilterType type;
};

constexpr NamedFilter kFilters[] = {
    {"blosc", ChunkFilterType::kBlosc},     {"zstd", ChunkFilterType::kZstd},
    {"gzip", ChunkFilterType::kGzip},       {"zlib", ChunkFilterType::kZlib},
    {"lz4", ChunkFilterType::kLz4},         {"crc32c", ChunkFilterType::kCrc32c},
    {"shuffle", ChunkFilterType::kShuffle},
};

/// Longest element that is shuffled; the widest cell.
constexpr uint32_t kMostElementBytes = 1U << 24;

uint32_t element_bytes(const json& configuration) {
  const json& size = field(configuration, "elementsize");
  return size.is_null() ? 4 : small_number(size, kMostElementBytes, "elementsize of shuffle");
}

}  // namespace

ChunkFilter filter_named(std::string_view name, const json& configuration) {
  const std::string_view plain = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  for (const NamedFilter& known : kFilters) {
    if (known.name != plain) continue;
    ChunkFilter filter{known.type, 0};
    if (known.type == ChunkFilterType::kShuffle)
      filter.element_bytes = element_bytes(configuration);
    // numcodecs can put the checksum in front.
    if (known.type == ChunkFilterType::kCrc32c && configuration.is_object()) {
      const json& location = field(configuration, "location");
      if (!location.is_null() && location != "end") {
        throw Unsupported("codec crc32c with the checksum at " + shown(location) + " is not read" +
                          std::string(kWriteAgain));
      }
    }
    return filter;
  }
  throw Unsupported("codec " + shown(json(std::string(name))) + " is not read" +
                    std::string(kWriteAgain));
}

bool is_vlen_utf8(std::string_view name) {
  return name == "vlen-utf8" || name == "numcodecs.vlen-utf8" || name == "vlen_utf8";
}

}  // namespace penstock::format::zarr
