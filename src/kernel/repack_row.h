#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/packed_row.h"

// Rewrites packed rows with other column numbers and in another layout, to join matrices whose
// columns have different places. Stateless, except for the caller's scratch memory.

namespace penstock::kernel {

/// New number of each column of a row; numbers are distinct.
struct ColumnNumbers {
  std::vector<uint32_t> numbers;
  uint32_t end = 0;        ///< highest number + 1
  bool identity = false;   ///< every column keeps its number
  bool ascending = false;  ///< entries keep their order

  explicit ColumnNumbers(std::vector<uint32_t> numbers_in);
};

/// Memory for repack_row, one for each thread.
struct RepackScratch {
  std::vector<uint64_t> marked;         // a bit for each new number
  std::vector<uint32_t> entry_of;       // by new number
  std::vector<uint32_t> order;          // entries by new number
  std::vector<uint32_t> numbers;        // new numbers in that order
  std::vector<uint32_t> place_of_wide;  // by entry, escapes only
};

/// The type to which numpy promotes both. int64 with uint64 becomes float64; so do floats with
/// integers of more than 16 bits.
DataType common_value_type(DataType a, DataType b);

/// The most that a record of layout `from` grows in layout `to`. The share of codes is unknown.
double most_growth(const PackedRowLayout& from, const PackedRowLayout& to);

/// Replaces the indices of a record in place. `columns` must ascend.
void renumber_row(const PackedRowLayout& layout, const ColumnNumbers& columns, std::byte* record);

/// Writes `record` to `destination`, which must have to.record_bytes(nnz, wide_count) bytes. The
/// index and value types of `to` must hold the new numbers and the values (common_value_type).
void repack_row(const PackedRowLayout& from, const std::byte* record, const ColumnNumbers& columns,
                const PackedRowLayout& to, std::byte* destination, RepackScratch& scratch);

}  // namespace penstock::kernel
