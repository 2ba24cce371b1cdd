#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/packed_row.h"

// Packed rows of several matrices as one record, whose columns are those of the first matrix, then
// those of the second, and so on; and the way back.
//
//   merge_rows({{rna, layout, 0}, {atac, layout, 30'000}}, both, destination);
//   const RowSplitter splitter(both, {30'000, 130'000});
//   splitter.split(record, memory, rows);                rows[0] is RNA's, rows[1] ATAC's
//
// Stateless; any thread.

namespace penstock::kernel {

/// One matrix's part of a merged row.
struct RowPart {
  const std::byte* record = nullptr;
  PackedRowLayout layout;
  uint32_t first_column = 0;  ///< added to the part's columns
};

/// Header of the merged row. It is raw if all parts with entries are. Beside a coded part, all
/// values of a raw one become escapes.
PackedRowHeader merged_header(PackedRowHeader a, PackedRowHeader b) noexcept;

/// The most that a part's record grows in a merged one.
double most_merged_growth(const PackedRowLayout& part, const PackedRowLayout& merged);

/// Writes record_bytes() of the merged header. Parts ascend by first column. The index and value
/// types of `to` must hold all columns and values (common_value_type).
void merge_rows(std::span<const RowPart> parts, const PackedRowLayout& to, std::byte* destination);

class RowSplitter {
 public:
  /// Part k has the columns from the end of part k - 1 to before ends[k]; ends ascend.
  RowSplitter(const PackedRowLayout& merged, std::vector<uint32_t> ends);

  size_t part_count() const noexcept { return ends_.size(); }
  /// The value type is that of the merged rows.
  const PackedRowLayout& layout(size_t part) const noexcept { return layouts_[part]; }
  /// Columns of a part.
  uint32_t columns(size_t part) const noexcept {
    return ends_[part] - (part == 0 ? 0 : ends_[part - 1]);
  }

  /// A part of a row: its record, with the part's own columns.
  struct Part {
    const std::byte* record = nullptr;
    uint32_t nnz = 0;
  };
  /// Most bytes that split() writes.
  size_t split_bytes(const std::byte* record) const noexcept;
  /// Writes a record for each part and returns the bytes written. `memory` is 8-byte aligned.
  size_t split(const std::byte* record, std::byte* memory, std::span<Part> parts) const;

 private:
  PackedRowLayout merged_;
  std::vector<uint32_t> ends_;
  std::vector<PackedRowLayout> layouts_;
};

}  // namespace penstock::kernel
