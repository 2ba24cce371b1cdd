#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "format/chunked/array.h"
#include "format/hdf5/file.h"
#include "format/hdf5/object/messages.h"

// Where the chunks of an array lie: the whole index, read once. Source: HDF5 File Format
// Specification, III.A (B-trees) and VII (other indexes).

namespace penstock::format::hdf5 {

struct StoredChunk {
  uint64_t number = 0;  ///< in C order over the grid
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t skipped_filters = 0;
};

/// What an index has to know of its array.
struct ChunkedShape {
  std::vector<uint64_t> shape, most_shape, chunk_shape;
  uint64_t chunk_bytes = 0;  ///< decoded
  bool filtered = false;
};

class ChunkIndex {
 public:
  /// Reads the index of a chunked layout. Throws CorruptData or Unsupported.
  static ChunkIndex read(const File& file, const Layout& layout, const ChunkedShape& shape);

  /// The chunk of a number; null if it is not stored.
  const StoredChunk* find(uint64_t number) const;
  const std::vector<StoredChunk>& chunks() const noexcept { return chunks_; }

 private:
  std::vector<StoredChunk> chunks_;  ///< by number, once each
};

// ---- the parts of it, by kind of index

/// Numbers of chunks from positions in the grid.
class ChunkNumbers {
 public:
  explicit ChunkNumbers(const ChunkedShape& shape);
  /// Nothing if the position lies outside of the array.
  std::optional<uint64_t> number_at(const std::vector<uint64_t>& position) const;
  /// The same, but CorruptData if it lies outside: an array that shrinks drops its chunks.
  uint64_t inside(const std::vector<uint64_t>& position) const;
  /// Of the chunk that a fixed or extensible array has at `index`. They count over the largest
  /// shape, and the dimension that can grow comes first.
  std::optional<uint64_t> number_of(uint64_t index) const;
  /// Chunks of the largest shape.
  uint64_t most() const noexcept { return most_; }

 private:
  std::vector<uint64_t> lengths_;  ///< chunks along each dimension
  std::vector<size_t> order_;      ///< dimensions, slowest first, of number_of()
  std::vector<uint64_t> steps_;    ///< of each dimension, in that order
  uint64_t most_ = 1;
};

/// Entries of an array of chunks: an address, and if chunks are filtered a size and a mask.
class ChunkEntries {
 public:
  ChunkEntries(const File& file, const ChunkedShape& shape, const ChunkNumbers& numbers,
               std::vector<StoredChunk>& chunks)
      : file_(file), shape_(shape), numbers_(numbers), chunks_(chunks) {}

  /// Takes `count` entries of `entry_bytes`, the first of which is number `index` of the array.
  void take(ByteReader& reader, uint64_t index, uint64_t count, unsigned entry_bytes);

 private:
  const File& file_;
  const ChunkedShape& shape_;
  const ChunkNumbers& numbers_;
  std::vector<StoredChunk>& chunks_;
};

void read_fixed_array(const File& file, uint64_t address, bool filtered, ChunkEntries& entries);
void read_extensible_array(const File& file, uint64_t address, bool filtered,
                           ChunkEntries& entries);

}  // namespace penstock::format::hdf5
