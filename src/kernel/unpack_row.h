#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/vector_path.h"
#include "kernel/packed_row.h"

// Packed rows back to numbers of the output type: the last step before a batch.
//
//   const RowUnpacker unpacker(layout, DataType::kFloat32);
//   unpacker.append_csr(record, indices, data);      nnz entries, duplicates kept
//   unpacker.scatter_dense(record, row);             adds into a row that is zero; duplicates sum
//   unpacker.fill_dense(record, row, columns);       the same into a row of any contents
//   finish_dense();                                  once, before other threads read filled rows
//
// fill_dense() builds the row piece by piece in a buffer that stays in the first-level cache and
// streams it to memory past the caches: three times the speed of clearing the row and adding into
// it (190,000 against 65,000 rows of 60,664 float32 a second, Zen 4, huge pages), as no line of the
// row is read from memory first.
//
// A value that does not fit an integer output type is not written: the call returns the number of
// its entry (kNoMisfit when all fit), of which `entry_text` makes words. Immutable, any thread.

namespace penstock::kernel {

inline constexpr uint32_t kNoMisfit = 0xFFFFFFFFU;

class RowUnpacker {
 public:
  /// Throws Unsupported when either type is not a number.
  RowUnpacker(const PackedRowLayout& layout, DataType output_type,
              VectorPath path = best_vector_path());

  uint32_t append_csr(const std::byte* record, int32_t* indices, std::byte* data) const {
    return append_(PackedRowView::of(record, layout_), indices, data);
  }
  uint32_t scatter_dense(const std::byte* record, std::byte* row) const {
    return scatter_(PackedRowView::of(record, layout_), row);
  }
  uint32_t fill_dense(const std::byte* record, std::byte* row, uint32_t columns) const {
    return fill_(PackedRowView::of(record, layout_), row, columns);
  }

  const PackedRowLayout& layout() const noexcept { return layout_; }
  DataType output_type() const noexcept { return output_type_; }

 private:
  using Append = uint32_t (*)(const PackedRowView&, int32_t*, std::byte*);
  using Scatter = uint32_t (*)(const PackedRowView&, std::byte*);
  using Fill = uint32_t (*)(const PackedRowView&, std::byte*, uint32_t);
  PackedRowLayout layout_;
  DataType output_type_;
  Append append_;
  Scatter scatter_;
  Fill fill_;
};

/// Orders the streamed stores of fill_dense() before whatever this thread does next.
void finish_dense() noexcept;

/// Column of an entry.
uint32_t entry_column(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry);
/// Stored value of an entry, as text for an error message.
std::string entry_text(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry);

}  // namespace penstock::kernel
