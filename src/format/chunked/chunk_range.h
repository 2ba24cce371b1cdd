#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "codec/chunk/chunk_pipeline.h"
#include "format/chunked/array.h"
#include "format/chunked/stored_chunks.h"

// Walks over the chunks of a range of a 1-D array: finds them, checks that what they claim to hold
// can be in what is stored, reads them in windows of bounded memory and decodes in parallel.

namespace penstock::format::chunked {

/// Cells of a chunk that are in the range.
struct ChunkPart {
  size_t number = 0;         ///< in the range, from 0
  uint64_t chunk_begin = 0;  ///< cell of the array at which the chunk begins
  uint64_t begin = 0;        ///< cells of the array
  uint64_t end = 0;
  uint32_t skipped_filters = 0;
  bool absent = false;
  bool plain = false;                 ///< `stored` are the cells [begin, end) themselves
  bool in_place = false;              ///< so, and they are already where `room` wanted them
  std::span<const std::byte> stored;  ///< empty if absent
};

class ChunkRange {
 public:
  /// Throws InvalidArgument unless the array has one dimension and the range lies in it.
  ChunkRange(const Array& array, uint64_t begin, uint64_t end);

  size_t parts() const noexcept { return places_.size(); }
  /// Stored bytes of all chunks.
  uint64_t stored_bytes() const noexcept;

  /// Throws CorruptData if a chunk cannot have as many cells as it must, and ResourceExhausted if
  /// absent chunks make more than kMostAbsentBytes of `cell_bytes`. After it, memory for the cells
  /// of fixed size may be allocated.
  void expect_backed(uint64_t cell_bytes) const;

  struct Steps {
    /// Called for each part, on several threads, when its stored bytes are there.
    std::function<void(const ChunkPart&, codec::ChunkScratch&)> decode;
    /// Where the cells of a plain part go. Long ones are read there, without a copy. Optional.
    std::function<std::span<std::byte>(const ChunkPart&)> room;
    /// Called after the parts [first, last), which are in memory together. Optional.
    std::function<void(size_t first, size_t last)> after_window;
  };

  /// Walks over all parts, on up to `threads` threads.
  void for_each(unsigned threads, const Steps& steps) const;

 private:
  /// Parts that are in memory together.
  struct Window {
    std::vector<ChunkPart> parts;
    std::vector<WantedBytes> wanted;     ///< a part each; nothing for those that are in `reads`
    std::vector<io::ReadRequest> reads;  ///< of parts in place
  };

  ChunkPart part(size_t number) const;
  Window next_window(size_t first, const Steps& steps) const;

  const Array& array_;
  const uint64_t begin_;
  const uint64_t end_;
  std::vector<ChunkPlace> places_;
};

/// Most bytes of cells that are not stored, in one range: they need no stored byte, so nothing else
/// bounds them.
inline constexpr uint64_t kMostAbsentBytes = uint64_t{4} << 30;

/// Most chunks of one range.
inline constexpr uint64_t kMostChunksAtOnce = uint64_t{1} << 21;

}  // namespace penstock::format::chunked
