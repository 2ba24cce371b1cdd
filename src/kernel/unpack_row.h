#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel/packed_row.h"
#include "kernel/vector_path.h"

// Packed rows back to numbers of the output type: the last step before a batch.
//
//   const RowUnpacker unpacker(layout, DataType::kFloat32);
//   unpacker.append_csr(record, indices, data);      nnz entries, duplicates kept
//   unpacker.scatter_dense(record, row);             adds into a row that is zero; duplicates sum
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

  const PackedRowLayout& layout() const noexcept { return layout_; }
  DataType output_type() const noexcept { return output_type_; }

 private:
  using Append = uint32_t (*)(const PackedRowView&, int32_t*, std::byte*);
  using Scatter = uint32_t (*)(const PackedRowView&, std::byte*);
  PackedRowLayout layout_;
  DataType output_type_;
  Append append_;
  Scatter scatter_;
};

/// Column of an entry.
uint32_t entry_column(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry);
/// Stored value of an entry, as text for an error message.
std::string entry_text(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry);

}  // namespace penstock::kernel
