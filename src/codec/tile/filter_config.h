#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <string_view>

// A filter as the schema has it: its type and the options that decoding needs.
// Source: format_spec/filter_pipeline.md, Filter Options.

namespace penstock::codec {

enum class FilterType : uint8_t {
  kNone = 0,
  kGzip = 1,
  kZstd = 2,
  kLz4 = 3,
  kRle = 4,
  kBzip2 = 5,
  kDoubleDelta = 6,
  kBitWidthReduction = 7,
  kBitShuffle = 8,
  kByteShuffle = 9,
  kPositiveDelta = 10,
  kAes256Gcm = 11,  ///< encryption: `Unsupported`
  kChecksumMd5 = 12,
  kChecksumSha256 = 13,
  kDictionary = 14,
  kScaleFloat = 15,
  kXor = 16,
  kDeprecated = 17,
  kWebp = 18,  ///< `Unsupported`
  kDelta = 19,
};

/// "zstd", "byteshuffle", … as TileDB-Py prints them.
std::string_view name_of(FilterType type);

struct FilterConfig {
  FilterType type = FilterType::kNone;
  int32_t compression_level = -1;
  DataType reinterpret_type = DataType::kAny;  ///< delta, double delta; kAny: the cells' own
  uint32_t max_window_bytes = 0;               ///< bit width reduction, positive delta
  double scale = 1.0;                          ///< float scale
  double offset = 0.0;                         ///< float scale
  uint64_t byte_width = 0;                     ///< float scale: bytes of the stored integer
};

/// The input type of the filter after `config` when the tile was written. Reinterpreting deltas,
/// float scale and XOR change the type; all others keep it. Throws `CorruptData` for impossible
/// options.
DataType output_type(const FilterConfig& config, DataType input);

}  // namespace penstock::codec
