#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "kernel/packed_row.h"

// Chosen rows and columns of a unit of a dense matrix, in the stored type, and their packed form
// without zeros (all bits 0; -0.0 is a value).
//
//   block.resize(rows, columns, layout);
//   … fill cells with block.cell(row, column), each once …
//   block.count(begin, end);         different rows at the same time
//   block.pack(row, destination);    the same
//
// Holds 8 bytes a row beside the cells.

namespace penstock::format {

class DenseBlock {
 public:
  /// Cells are undefined afterwards. Throws CorruptData if the size overflows.
  void resize(size_t rows, size_t columns, const kernel::PackedRowLayout& layout);

  std::byte* cell(size_t row, size_t column) noexcept {
    return cells_.data() + (row * columns_ + column) * layout_.value_bytes;
  }
  size_t row_count() const noexcept { return nnz_.size(); }
  uint64_t memory_bytes() const noexcept { return cells_.capacity() + nnz_.size() * 8; }

  /// Counts the non-zeros of rows [begin, end).
  void count(size_t begin, size_t end);

  uint32_t nnz(size_t row) const noexcept { return nnz_[row]; }
  uint32_t wide_count(size_t row) const noexcept { return wide_[row]; }
  size_t packed_bytes(size_t row) const noexcept {
    return layout_.record_bytes(nnz_[row], wide_[row]);
  }
  void pack(size_t row, std::byte* destination) const;

 private:
  kernel::PackedRowLayout layout_;
  size_t columns_ = 0;
  Buffer cells_;
  std::vector<uint32_t> nnz_;
  std::vector<uint32_t> wide_;
};

}  // namespace penstock::format
