#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/memory/buffer.h"
#include "codec/cell_run.h"
#include "codec/tile/chunk.h"
#include "codec/tile/filter_config.h"

// Decodes tiles: runs TileDB's filters in reverse, from stored bytes to cells.
// Source: format_spec/filter_pipeline.md, format_spec/tile.md, format_spec/filters/ and, where they
// differ, tiledb/sm/filter/*.cc.
//
// A FilterPipeline is immutable and shared by threads. Each thread has a DecodeScratch of temporary
// memory. Stored bytes are untrusted: every length is checked before use. A stream that does not
// decode to exactly the size in its header is `CorruptData`.

namespace penstock::codec {

/// Memory that one thread reuses from tile to tile. Owned by the caller, opaque to it.
struct DecodeScratch {
  Buffer data[2];
  Buffer metadata[2];
  std::vector<DataType> types;
};

/// A chunk decoded to its cells or to the byte planes of its cells.
struct CellBytes {
  /// A view of the scratch or the stored tile: valid until either changes.
  std::span<const std::byte> bytes;
  bool shuffled = false;  ///< byte planes, low byte first, not cells
};

/// Size of a tile of strings according to the fragment's metadata.
struct StringTileSize {
  uint64_t strings = 0;
  uint64_t characters = 0;  ///< bytes
};

class FilterPipeline {
 public:
  FilterPipeline() = default;
  FilterPipeline(std::vector<FilterConfig> filters, uint32_t max_chunk_bytes);

  /// Parses a serialized pipeline (format_spec/filter_pipeline.md). Throws `Unsupported` for
  /// unknown filters.
  static FilterPipeline parse(ByteReader& reader, uint32_t format_version);

  const std::vector<FilterConfig>& filters() const noexcept { return filters_; }
  uint32_t max_chunk_bytes() const noexcept { return max_chunk_bytes_; }

  /// Throws the error of decode() for filters that it cannot undo, before anything is allocated.
  void expect_readable() const;

  /// Sum of the chunks' original lengths, from chunk headers only. Throws `CorruptData` unless the
  /// chunks fill `stored` and each is long enough for the length that it claims (expansion.h). So
  /// the sum is safe to allocate.
  uint64_t decoded_bytes(std::span<const std::byte> stored) const;

  /// Decodes one tile into `out`, whose size must equal decoded_bytes(stored). Callers compare the
  /// size with the fragment's number of cells before they allocate. `type` is the cells' type
  /// (uint64 for offset tiles, uint8 for validity tiles). `cell_bytes` is needed only by RLE: the
  /// size of a whole cell if cells have several values, else 0.
  void decode(std::span<const std::byte> stored, DataType type, uint32_t format_version,
              std::span<std::byte> out, DecodeScratch& scratch, uint64_t cell_bytes = 0) const;

  /// Decodes one chunk to its cells. If the first filter is a byte shuffle, decodes only to the
  /// planes, so that value_codes.h can un-shuffle and narrow in one pass. Nothing is copied.
  CellBytes decode_chunk_planes(const Chunk& chunk, DataType type, uint32_t format_version,
                                DecodeScratch& scratch) const;

  /// Appends the chunk's 8-byte cells as runs of equal ones, if this is faster than decoding them:
  /// for Zstandard alone with long runs. False: nothing was appended or checked, so use decode() or
  /// decode_chunk_planes().
  bool decode_chunk_runs(const Chunk& chunk, std::vector<CellRun>& runs) const;

  /// True if a variable-length string tile was written with its offsets inside (RLE or dictionary
  /// filter on ASCII or UTF-8). Then use decode_strings and ignore the offsets tile. For format 17
  /// or later; earlier formats did so only for ASCII.
  bool stores_string_offsets(DataType type, bool variable_length) const;

  /// Decodes such a tile: `characters` gets the bytes, `offsets` the start of each string in bytes
  /// from the start of the tile, as in offset tiles. Throws `CorruptData` unless the numbers of
  /// strings and characters are those of `expected`, which also bounds memory.
  void decode_strings(std::span<const std::byte> stored, DataType type, uint32_t format_version,
                      Buffer& characters, std::vector<uint64_t>& offsets, DecodeScratch& scratch,
                      StringTileSize expected) const;

 private:
  std::vector<FilterConfig> filters_;
  uint32_t max_chunk_bytes_ = 65536;
};

}  // namespace penstock::codec
