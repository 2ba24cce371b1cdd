#include "codec/tile/filter_config.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::codec {

std::string_view name_of(FilterType type) {
  static constexpr std::string_view kNames[] = {"none",
                                                "gzip",
                                                "zstd",
                                                "lz4",
                                                "rle",
                                                "bzip2",
                                                "double_delta",
                                                "bit_width_reduction",
                                                "bitshuffle",
                                                "byteshuffle",
                                                "positive_delta",
                                                "aes_256_gcm",
                                                "checksum_md5",
                                                "checksum_sha256",
                                                "dictionary",
                                                "float_scale",
                                                "xor",
                                                "deprecated",
                                                "webp",
                                                "delta"};
  const auto code = static_cast<uint8_t>(type);
  return code <= static_cast<uint8_t>(FilterType::kDelta) ? kNames[code]
                                                          : std::string_view("unknown");
}

namespace {

DataType integer_of(uint64_t bytes, FilterType filter) {
  switch (bytes) {
    case 1:
      return DataType::kInt8;
    case 2:
      return DataType::kInt16;
    case 4:
      return DataType::kInt32;
    case 8:
      return DataType::kInt64;
    default:
      throw CorruptData(
          concat(name_of(filter), " filter with an impossible integer width of bytes: ", bytes));
  }
}

}  // namespace

DataType output_type(const FilterConfig& config, DataType input) {
  switch (config.type) {
    case FilterType::kDelta:
    case FilterType::kDoubleDelta:
      return config.reinterpret_type == DataType::kAny ? input : config.reinterpret_type;
    case FilterType::kScaleFloat:
      return integer_of(config.byte_width, config.type);
    case FilterType::kXor:
      return integer_of(size_of(input), config.type);
    default:
      return input;
  }
}

}  // namespace penstock::codec
