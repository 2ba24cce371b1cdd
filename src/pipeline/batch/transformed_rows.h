#pragma once

#include <penstock/loader.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernel/packed_row.h"
#include "pipeline/memory/packed_row_ref.h"

// Writes packed rows through a TransformPlan into the memory of a batch, for a BatchAssembler with
// transforms. Immutable; any threads at once.

namespace penstock::pipeline {

/// Records are scattered in memory, and the hardware prefetches only streams that have started.
inline void prefetch_record(const PackedRowRef& row) noexcept {
  for (size_t offset = 0; offset < 512; offset += 64) {
    __builtin_prefetch(row.record + offset);
  }
}

class TransformedRows {
 public:
  /// Called with a row and the entry whose value does not fit the dtype; throws.
  using Misfit = std::function<void(const PackedRowRef&, uint32_t entry)>;

  virtual ~TransformedRows() = default;

  /// Writes rows one after the other. Returns the number of non-zeros, which may be fewer than
  /// stored.
  virtual uint64_t fill_csr(std::span<const PackedRowRef> rows, int32_t* indptr, int32_t* indices,
                            std::byte* values, const Misfit& misfit) const = 0;
  /// Row-major. For tokens, `lengths` gets one number a row.
  virtual void fill_dense(std::span<const PackedRowRef> rows, std::byte* values, int32_t* lengths,
                          const Misfit& misfit) const = 0;
};

/// Shape of batches: columns and dtype after the transforms.
struct BatchShape {
  uint32_t columns = 0;
  DataType dtype = DataType::kFloat32;
  bool tokens = false;
};
BatchShape batch_shape(const TransformPlan* plan, uint32_t columns, DataType dtype);

/// Throws InvalidArgument for a plan that is invalid or does not work in this layout.
std::unique_ptr<const TransformedRows> make_transformed_rows(const TransformPlan& plan,
                                                             const kernel::PackedRowLayout& rows,
                                                             uint32_t columns, DataType dtype,
                                                             BatchLayout layout);

}  // namespace penstock::pipeline
