#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/packed_row.h"

// Writing a packed row again under other column numbers, and in another layout: what joins matrices
// whose columns are in different places. Stateless but for scratch memory of the caller's.

namespace penstock::kernel {

/// New number of each column of a row, no two the same.
struct ColumnNumbers {
  std::vector<uint32_t> numbers;
  uint32_t end = 0;        ///< one more than the highest
  bool identity = false;   ///< every number is its own
  bool ascending = false;  ///< entries stay in their order

  explicit ColumnNumbers(std::vector<uint32_t> numbers_in);
};

/// Memory that repack_row uses, one for each thread.
struct RepackScratch {
  std::vector<uint64_t> marked;         // a bit for each new number
  std::vector<uint32_t> entry_of;       // by new number
  std::vector<uint32_t> order;          // entries by new number
  std::vector<uint32_t> numbers;        // new numbers in that order
  std::vector<uint32_t> place_of_wide;  // by entry, escapes only
};

/// The smallest type that holds the values of both exactly, as numpy promotes them (64-bit integers
/// of unlike sign, and integers of more than 16 bits with floats, become float64).
DataType common_value_type(DataType a, DataType b);

/// Indices of a record replaced where it lies. `columns` must ascend.
void renumber_row(const PackedRowLayout& layout, const ColumnNumbers& columns, std::byte* record);

/// Writes `record` to `destination`, which has room for to.record_bytes(nnz, wide_count). `to` must
/// hold the numbers and values: a wider index, a common_value_type.
void repack_row(const PackedRowLayout& from, const std::byte* record, const ColumnNumbers& columns,
                const PackedRowLayout& to, std::byte* destination, RepackScratch& scratch);

}  // namespace penstock::kernel
