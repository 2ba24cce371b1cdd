#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/vector_path.h"
#include "kernel/packed_row.h"

// Selects columns of packed rows, for stores that keep all columns.

namespace penstock::kernel {

/// Immutable, any thread.
class ColumnChoice {
 public:
  static constexpr uint32_t kDropped = 0xFFFFFFFFU;

  /// `chosen`: columns below `column_count`; the i-th becomes column i. Throws InvalidArgument
  /// unless they ascend strictly.
  ColumnChoice(std::span<const uint32_t> chosen, uint32_t column_count);

  bool all() const noexcept { return all_; }  ///< every column is chosen
  std::span<const uint32_t> numbers() const noexcept { return numbers_; }
  uint32_t count() const noexcept { return count_; }

 private:
  std::vector<uint32_t> numbers_;  // by stored column
  uint32_t count_ = 0;
  bool all_ = false;
};

struct SelectedRow {
  uint32_t nnz = 0;
  uint32_t wide_count = 0;
};

/// Writes the chosen entries of `record` to `destination`, which must have room for all entries
/// (to.record_bytes of the record's own counts). Columns of the record must be below column_count;
/// `to` must have the same value type. About a nanosecond an entry.
SelectedRow select_columns(const PackedRowLayout& from, const std::byte* record,
                           const ColumnChoice& choice, const PackedRowLayout& to,
                           std::byte* destination);

}  // namespace penstock::kernel
