#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "format/row_file/record_unpacker.h"

// Packed rows of a unit that wait for pack(), in blocks of 64 rows. Different threads may fill
// different blocks. Buffers are used again for the next unit.

namespace penstock::format::pack {

class StagedRows {
 public:
  static constexpr size_t kBlockRows = 64;

  void reset(size_t rows) {
    shapes_.assign(rows, {});
    begins_.assign(rows, 0);
    blocks_.resize((rows + kBlockRows - 1) / kBlockRows);
    for (Block& block : blocks_) block.used = 0;
  }
  size_t block_count() const noexcept { return blocks_.size(); }

  /// Adds the next row of a block. `write(destination)` writes at most `most_bytes` and returns the
  /// shape of the row.
  template <typename Write>
  void add(size_t row, size_t most_bytes, const kernel::PackedRowLayout& layout, Write&& write) {
    Block& block = blocks_[row / kBlockRows];
    if (block.bytes.size() < block.used + most_bytes) {
      block.bytes.resize(std::max(block.used + most_bytes, block.bytes.size() * 3 / 2));
    }
    begins_[row] = block.used;
    shapes_[row] = write(block.bytes.data() + block.used);
    block.used += bytes_of(row, layout);
  }

  const RowShape& shape(size_t row) const noexcept { return shapes_[row]; }
  void copy(size_t row, const kernel::PackedRowLayout& layout, std::byte* destination) const {
    std::memcpy(destination, blocks_[row / kBlockRows].bytes.data() + begins_[row],
                bytes_of(row, layout));
  }

 private:
  struct alignas(64) Block {  // a cache line for each thread
    std::vector<std::byte> bytes;
    size_t used = 0;
  };

  size_t bytes_of(size_t row, const kernel::PackedRowLayout& layout) const noexcept {
    return layout.record_bytes(shapes_[row].nnz, shapes_[row].wide_count);
  }

  std::vector<RowShape> shapes_;  // by row
  std::vector<size_t> begins_;    // by row: offset in its block
  std::vector<Block> blocks_;
};

}  // namespace penstock::format::pack
