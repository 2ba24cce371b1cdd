#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "format/row_file/row_record.h"
#include "kernel/select_columns.h"

// Unpacks stored records to packed rows under a choice of columns: the last step of every reader of
// row files. Immutable, any thread.

namespace penstock::format::pack {

class RecordUnpacker {
 public:
  /// `columns`: strictly ascending ids below `column_domain_end`, else InvalidArgument. Columns
  /// that the files do not store (ids from `stored_columns` on) have no values.
  RecordUnpacker(uint64_t stored_columns, int64_t column_domain_end, DataType value_type,
                 std::span<const int64_t> columns);

  const kernel::PackedRowLayout& layout() const noexcept { return layout_; }
  /// True if rows are returned as stored. unpack() then writes exactly most_bytes().
  bool all_columns() const noexcept { return all_columns_; }

  /// Throws CorruptData if the checksum does not match the record.
  void check(std::span<const std::byte> stored) const;
  RowShape shape(std::span<const std::byte> stored) const { return decoder_.shape(stored); }
  /// Returns the most bytes that unpack() may write for a record of this shape.
  size_t most_bytes(const RowShape& shape) const noexcept {
    return std::max(decoder_.layout().record_bytes(shape.nnz, shape.wide_count),
                    layout_.record_bytes(shape.nnz, shape.wide_count));
  }
  /// `shape`: of the record. Returns the shape of the row that was written.
  RowShape unpack(std::span<const std::byte> stored, const RowShape& shape,
                  std::byte* destination) const;
  /// The same for a packed row with all stored columns; `shape` is the shape of `whole`.
  RowShape choose(const RowShape& shape, const std::byte* whole, std::byte* destination) const;

 private:
  RowDecoder decoder_;
  kernel::ColumnChoice choice_;
  kernel::PackedRowLayout layout_;
  bool all_columns_;
};

}  // namespace penstock::format::pack
