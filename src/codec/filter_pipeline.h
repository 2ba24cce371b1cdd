#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/byte_reader.h"

// The filters that TileDB runs over a tile, in reverse: stored bytes -> cells.
// Source: format_spec/filter_pipeline.md, format_spec/tile.md, format_spec/filters/ and, where they differ,
// tiledb/sm/filter/*.cc.
//
// A FilterPipeline is immutable and shared by threads; what a decode needs besides its output lives in a
// per-thread DecodeScratch. Stored bytes are untrusted: every length is checked before use, and a stream
// that does not decode to exactly what its header says is `CorruptData`.

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

/// Memory that one thread reuses from tile to tile.
struct DecodeScratch {
  Buffer a, b;
  std::vector<std::byte> metadata_a, metadata_b;
};

class FilterPipeline {
 public:
  FilterPipeline() = default;
  FilterPipeline(std::vector<FilterConfig> filters, uint32_t max_chunk_bytes);

  /// Parses a serialized pipeline (format_spec/filter_pipeline.md). Unknown filters are `Unsupported`.
  static FilterPipeline parse(ByteReader& reader, uint32_t format_version);

  const std::vector<FilterConfig>& filters() const noexcept { return filters_; }
  uint32_t max_chunk_bytes() const noexcept { return max_chunk_bytes_; }

  /// Sum of the chunks' original lengths; walks chunk headers only, and checks that they fill `stored`.
  uint64_t decoded_bytes(std::span<const std::byte> stored) const;

  /// Decodes one tile into `out`, whose size must equal decoded_bytes(stored).
  /// `type` is the cells' type (uint64 for offset tiles, uint8 for validity tiles).
  void decode(std::span<const std::byte> stored, DataType type, uint32_t format_version,
              std::span<std::byte> out, DecodeScratch& scratch) const;

  /// True when a variable-length string tile was written with its offsets inside (RLE or dictionary
  /// filter first on strings): then decode_strings is to be used and the offsets tile ignored.
  bool stores_string_offsets(DataType type, bool variable_length) const;

  /// Decodes such a tile: `characters` get the bytes, `offsets` one start per string (as offset tiles
  /// have them: bytes from the start of the tile).
  void decode_strings(std::span<const std::byte> stored, DataType type, uint32_t format_version,
                      Buffer& characters, std::vector<uint64_t>& offsets,
                      DecodeScratch& scratch) const;

 private:
  std::vector<FilterConfig> filters_;
  uint32_t max_chunk_bytes_ = 65536;
};

/// One chunk of a stored tile, as views.
struct Chunk {
  uint32_t original_bytes = 0;
  std::span<const std::byte> metadata;
  std::span<const std::byte> data;
};

/// Walks the chunks of a stored tile, checked; for readers that fuse decoding with what comes after.
std::vector<Chunk> split_chunks(std::span<const std::byte> stored);

}  // namespace penstock::codec
