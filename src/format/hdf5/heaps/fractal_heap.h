#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/memory/buffer.h"
#include "format/hdf5/file.h"

// A fractal heap: the links or attributes of a group that has many. Source: HDF5 File Format
// Specification, III.G.

namespace penstock::format::hdf5 {

class FractalHeap {
 public:
  /// Throws CorruptData, or Unsupported for a heap with filters.
  FractalHeap(const File& file, uint64_t address);

  /// Bytes of an id, as records of the B-tree beside the heap store it.
  size_t id_bytes() const noexcept { return id_bytes_; }
  /// A copy of the object with an id.
  Buffer read(std::span<const std::byte> id);

 private:
  struct Block {
    uint64_t address = 0, offset = 0, length = 0;
  };
  Buffer read_managed(ByteReader& id);
  Buffer read_huge(ByteReader& id);
  /// The bytes of a direct block, checked.
  const Buffer& read_direct(const Block& block);
  Block find_block(uint64_t offset);
  Block find_below(uint64_t address, uint64_t base, uint64_t rows, uint64_t offset);
  uint64_t row_bytes(uint64_t row) const;

  const File& file_;
  Walk walk_;    ///< of objects, each of which is asked for once
  Walk blocks_;  ///< of direct blocks
  size_t id_bytes_ = 0;
  unsigned offset_bytes_ = 0;  ///< of an offset in the heap
  unsigned size_bytes_ = 0;    ///< of an object's length in an id
  uint64_t huge_index_ = 0;
  uint64_t width_ = 0;
  uint64_t first_block_bytes_ = 0;
  uint64_t most_direct_bytes_ = 0;
  uint64_t root_ = 0;
  uint64_t root_rows_ = 0;  ///< 0: the root is a direct block
  bool huge_in_id_ = false;
  bool checked_blocks_ = false;           ///< direct blocks have checksums
  std::map<uint64_t, File::Place> huge_;  ///< by id, read when the first is asked for
  std::map<uint64_t, Buffer> indirect_;   ///< by address
  std::map<uint64_t, Buffer> direct_;     ///< by address
};

}  // namespace penstock::format::hdf5
