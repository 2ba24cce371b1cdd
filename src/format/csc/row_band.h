#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "kernel/packed_row.h"

// Rows [begin, end) of a matrix that is stored by columns, collected as CSR in memory. Their
// numbers of entries are known before, so each entry is written once, at its place.
//
//   RowBand band(layout, begin, counts);           counts of the rows from `begin` on
//   band.add(column, ids, values, first, last);    columns in ascending order
//   band.expect_complete(…);
//   band.pack(row, record);

namespace penstock::format {

/// Instead of a number of entries: the row is not chosen, and its entries are dropped.
inline constexpr uint32_t kRowNotChosen = 0xFFFFFFFFU;

class RowBand {
 public:
  /// No rows.
  explicit RowBand(const kernel::PackedRowLayout& layout) : layout_(layout) {}
  RowBand(const kernel::PackedRowLayout& layout, uint64_t begin, std::span<const uint32_t> counts);

  /// Memory of a row, and of each of its entries.
  static constexpr uint64_t kRowBytes = sizeof(uint64_t) + sizeof(uint32_t);
  static uint64_t entry_bytes(const kernel::PackedRowLayout& layout) noexcept {
    return uint64_t{layout.index_bytes} + layout.value_bytes;
  }

  uint64_t begin() const noexcept { return begin_; }
  uint64_t end() const noexcept { return begin_ + left_.size(); }
  bool has(uint64_t row) const noexcept { return row >= begin_ && row < end(); }

  /// Takes the entries of one column that lie in rows [first, last): row ids and values of the
  /// stored type. Columns must come in ascending order. Different ranges of rows can be filled at
  /// the same time. Returns false if a row has more entries than were counted.
  bool add(uint32_t column, std::span<const uint32_t> rows, const std::byte* values, uint64_t first,
           uint64_t last);

  /// Whether all rows have as many entries as were counted.
  bool complete() const noexcept;

  uint32_t nnz(uint64_t row) const noexcept;
  void pack(uint64_t row, std::vector<uint64_t>& record) const;

 private:
  template <typename Index, typename Bits>
  bool add_cells(uint32_t column, std::span<const uint32_t> rows, const std::byte* values,
                 uint64_t first, uint64_t last);
  template <typename Index>
  bool add_indices(uint32_t column, std::span<const uint32_t> rows, const std::byte* values,
                   uint64_t first, uint64_t last);
  template <typename Index>
  void pack_entries(uint64_t at, uint32_t count, std::vector<uint64_t>& record) const;

  kernel::PackedRowLayout layout_;
  uint64_t begin_ = 0;
  std::vector<uint64_t> offsets_;  ///< the first entry of each row, and the end
  std::vector<uint32_t> left_;     ///< entries of each row that are still to come
  Buffer indices_, values_;
};

}  // namespace penstock::format
