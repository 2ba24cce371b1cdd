#include <penstock/error.h>

#include <cmath>

#include "base/concat.h"
#include "codec/tile/filter_pipeline.h"

// Serialized pipelines. Source: format_spec/filter_pipeline.md; filter_create.cc.

namespace penstock::codec {
namespace {

/// Far above any real pipeline; bounds the work for a hostile schema.
constexpr uint32_t kMaxFilters = 256;

DataType read_data_type(ByteReader& options) {
  const auto code = options.read<uint8_t>("reinterpret type");
  if (code > kLastDataType) {
    throw CorruptData(concat("filter reinterprets as unknown data type code ", code));
  }
  return static_cast<DataType>(code);
}

void read_scale(ByteReader& options, FilterConfig& filter) {
  filter.scale = options.read<double>("float scale factor");
  filter.offset = options.read<double>("float scale offset");
  filter.byte_width = options.read<uint64_t>("float scale byte width");
  output_type(filter, DataType::kFloat32);  // checks the width
}

FilterConfig read_filter(ByteReader& reader) {
  FilterConfig filter;
  const auto code = reader.read<uint8_t>("filter type");
  const auto option_bytes = reader.read<uint32_t>("filter options size");
  ByteReader options(reader.take(option_bytes, "filter options"));
  if (code > static_cast<uint8_t>(FilterType::kDelta)) {
    throw Unsupported(concat("filter code ", code,
                             " is unknown to this version of penstock; a newer one may read it"));
  }
  filter.type = static_cast<FilterType>(code);
  switch (filter.type) {
    case FilterType::kGzip:
    case FilterType::kZstd:
    case FilterType::kLz4:
    case FilterType::kRle:
    case FilterType::kBzip2:
    case FilterType::kDictionary:
    case FilterType::kDoubleDelta:
    case FilterType::kDelta:
      options.skip(sizeof(uint8_t), "compressor type");
      filter.compression_level = options.read<int32_t>("compression level");
      // Delta has a type from format 19 on, double delta from 20; the size tells.
      if ((filter.type == FilterType::kDelta || filter.type == FilterType::kDoubleDelta) &&
          !options.empty()) {
        filter.reinterpret_type = read_data_type(options);
      }
      break;
    case FilterType::kBitWidthReduction:
    case FilterType::kPositiveDelta:
      filter.max_window_bytes = options.read<uint32_t>("max window size");
      break;
    case FilterType::kScaleFloat:
      read_scale(options, filter);
      break;
    case FilterType::kNone:
    case FilterType::kDeprecated:
    case FilterType::kWebp:  // accepted here, so that other columns can be read
      options.skip(options.remaining(), "filter options");
      break;
    case FilterType::kBitShuffle:
    case FilterType::kByteShuffle:
    case FilterType::kAes256Gcm:
    case FilterType::kChecksumMd5:
    case FilterType::kChecksumSha256:
    case FilterType::kXor:
      break;
  }
  if (!options.empty()) {
    throw CorruptData(concat(name_of(filter.type), " filter has ", options.remaining(),
                             " bytes of options too many"));
  }
  return filter;
}

}  // namespace

FilterPipeline FilterPipeline::parse(ByteReader& reader, uint32_t /*format_version*/) {
  const auto max_chunk_bytes = reader.read<uint32_t>("max chunk size");
  const auto count = reader.read<uint32_t>("number of filters");
  reader.expect_items(count, sizeof(uint8_t) + sizeof(uint32_t), "filters");
  if (count > kMaxFilters) {
    throw CorruptData(concat("pipeline has an implausible number of filters: ", count));
  }
  std::vector<FilterConfig> filters;
  filters.reserve(count);
  for (uint32_t i = 0; i < count; ++i) filters.push_back(read_filter(reader));
  return FilterPipeline(std::move(filters), max_chunk_bytes);
}

}  // namespace penstock::codec
