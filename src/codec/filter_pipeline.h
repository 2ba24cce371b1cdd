#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/byte_reader.h"
#include "codec/cell_run.h"
#include "codec/chunk.h"
#include "codec/filter_config.h"

// The filters that TileDB runs over a tile, in reverse: stored bytes -> cells.
// Source: format_spec/filter_pipeline.md, format_spec/tile.md, format_spec/filters/ and, where they
// differ, tiledb/sm/filter/*.cc.
//
// A FilterPipeline is immutable and shared by threads; what a decode needs besides its output lives
// in a per-thread DecodeScratch. Stored bytes are untrusted: every length is checked before use,
// and a stream that does not decode to exactly what its header says is `CorruptData`.

namespace penstock::codec {

/// Memory that one thread reuses from tile to tile. Owned by the caller, opaque to it.
struct DecodeScratch {
  Buffer data[2];
  Buffer metadata[2];
  std::vector<DataType> types;
};

/// A chunk undone up to its cells or to the byte planes of its cells.
struct CellBytes {
  /// Into the scratch or the stored tile: valid until either changes.
  std::span<const std::byte> bytes;
  bool shuffled = false;  ///< byte planes, low byte first, not cells
};

/// What the fragment's metadata promise of a tile of strings.
struct StringTileSize {
  uint64_t strings = 0;
  uint64_t characters = 0;  ///< bytes
};

class FilterPipeline {
 public:
  FilterPipeline() = default;
  FilterPipeline(std::vector<FilterConfig> filters, uint32_t max_chunk_bytes);

  /// Parses a serialized pipeline (format_spec/filter_pipeline.md). Unknown filters are
  /// `Unsupported`.
  static FilterPipeline parse(ByteReader& reader, uint32_t format_version);

  const std::vector<FilterConfig>& filters() const noexcept { return filters_; }
  uint32_t max_chunk_bytes() const noexcept { return max_chunk_bytes_; }

  /// Throws what decode() throws for filters that it does not undo, before anything is allocated.
  void expect_readable() const;

  /// Sum of the chunks' original lengths; walks chunk headers only. Throws `CorruptData` unless the
  /// chunks fill `stored` and each is long enough to hold what it claims (expansion.h), so that the
  /// sum may be allocated.
  uint64_t decoded_bytes(std::span<const std::byte> stored) const;

  /// Decodes one tile into `out`, whose size must equal decoded_bytes(stored). The caller compares
  /// that with the cells that the fragment promises before it allocates. `type` is the cells' type
  /// (uint64 for offset tiles, uint8 for validity tiles); `cell_bytes` only matters to RLE and is
  /// the size of a whole cell where one has several values (0: one value).
  void decode(std::span<const std::byte> stored, DataType type, uint32_t format_version,
              std::span<std::byte> out, DecodeScratch& scratch, uint64_t cell_bytes = 0) const;

  /// Undoes one chunk as far as its cells, or, where the first filter is a byte shuffle, as far as
  /// the planes, so that narrow.h can un-shuffle and narrow in one pass. Nothing is copied.
  CellBytes decode_chunk_planes(const Chunk& chunk, DataType type, uint32_t format_version,
                                DecodeScratch& scratch) const;

  /// Appends the chunk's cells of 8 bytes as runs of equal ones, where that takes less than to
  /// decode them: Zstandard alone, and long runs. False: nothing was appended and nothing checked,
  /// decode the chunk otherwise.
  bool decode_chunk_runs(const Chunk& chunk, std::vector<CellRun>& runs) const;

  /// True when a variable-length string tile was written with its offsets inside (RLE or dictionary
  /// filter on ASCII or UTF-8): then decode_strings is to be used and the offsets tile ignored.
  /// Format 17 or later; earlier ones only did so for ASCII.
  bool stores_string_offsets(DataType type, bool variable_length) const;

  /// Decodes such a tile: `characters` get the bytes, `offsets` one start per string (as offset
  /// tiles have them: bytes from the start of the tile). Another number of strings or characters
  /// than `expected` is `CorruptData`; memory is bounded by both.
  void decode_strings(std::span<const std::byte> stored, DataType type, uint32_t format_version,
                      Buffer& characters, std::vector<uint64_t>& offsets, DecodeScratch& scratch,
                      StringTileSize expected) const;

 private:
  std::vector<FilterConfig> filters_;
  uint32_t max_chunk_bytes_ = 65536;
};

}  // namespace penstock::codec
