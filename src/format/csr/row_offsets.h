#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// indptr of a CSR matrix: the first element of each row. Checked when it is made, then immutable.
// Takes 4 bytes a row and 8 bytes for each block of 1,024 rows.

namespace penstock::format {

class RowOffsets {
 public:
  /// Appends the next offset of indptr. The first must be 0, and offsets must not fall. Throws
  /// CorruptData with the row, and Unsupported if 1,024 rows have 2^32 elements.
  void append(uint64_t offset);

  uint64_t row_count() const noexcept { return count_ == 0 ? 0 : count_ - 1; }
  uint64_t element_count() const noexcept { return last_; }

  uint64_t begin(uint64_t row) const noexcept { return blocks_[row >> kBlockBits] + within_[row]; }
  uint64_t end(uint64_t row) const noexcept { return begin(row + 1); }

  /// The row that has this element: the last row that begins at or before it and is not empty.
  /// `element` < element_count().
  uint64_t row_of(uint64_t element) const noexcept;
  /// The same, of an element that is not before row `from`. Fast if its row is near.
  uint64_t row_of(uint64_t element, uint64_t from) const noexcept;

  size_t memory_bytes() const noexcept { return blocks_.size() * 8 + within_.size() * 4; }

 private:
  static constexpr uint32_t kBlockBits = 10;
  std::vector<uint64_t> blocks_;  ///< offset of the first row of each block
  std::vector<uint32_t> within_;  ///< offset of each row from its block's
  uint64_t count_ = 0;
  uint64_t last_ = 0;
};

}  // namespace penstock::format
