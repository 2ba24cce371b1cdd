#pragma once

#include <penstock/loader.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernel/unpack_row.h"
#include "pipeline/batch/transformed_rows.h"
#include "pipeline/memory/batch_pool.h"
#include "pipeline/memory/packed_row_ref.h"

// Assembles packed rows into one batch: CSR, dense or tokens. Immutable; many threads may assemble
// batches at once.

namespace penstock::pipeline {

class BatchAssembler {
 public:
  /// `column_ids` (null: column i is i) are only used to name a gene in an error.
  BatchAssembler(const kernel::PackedRowLayout& rows, BatchLayout layout, DataType dtype,
                 uint32_t columns, std::shared_ptr<const std::vector<int64_t>> column_ids,
                 std::shared_ptr<BatchPool> pool, bool narrow_values = false,
                 std::shared_ptr<const TransformPlan> transforms = nullptr);

  /// Returns the bytes of a batch of rows with `nnz` stored non-zeros. Throws InvalidArgument if a
  /// CSR batch has more non-zeros than an int32 indptr can count.
  size_t batch_bytes(uint64_t rows, uint64_t nnz) const;

  /// Throws InvalidArgument that names value, cell and gene if a value does not fit the dtype.
  std::shared_ptr<const Batch> assemble(std::span<const PackedRowRef> rows,
                                        std::optional<uint32_t> repeated_row = {}) const;
  /// The same in memory of batch_bytes() at `base`, 64-byte aligned, which `owner` holds.
  std::shared_ptr<Batch> assemble_at(std::byte* base, std::shared_ptr<void> owner,
                                     std::span<const PackedRowRef> rows,
                                     std::optional<uint32_t> repeated_row) const;

 private:
  struct Parts;
  /// A value that does not fit: its row in the batch and its entry in the row.
  struct Misfit {
    size_t row = SIZE_MAX;
    uint32_t entry = kernel::kNoMisfit;
  };
  Misfit fill_csr(std::span<const PackedRowRef> rows, const Parts& parts,
                  const kernel::RowUnpacker& unpacker) const;
  /// Returns the dtype of the values that it wrote; `nnz` is their number.
  DataType fill_csr_values(std::span<const PackedRowRef> rows, const Parts& parts,
                           uint64_t& nnz) const;
  void fill_dense(std::span<const PackedRowRef> rows, const Parts& parts) const;
  [[noreturn]] void fail_misfit(const PackedRowRef& row, uint32_t entry) const;

  kernel::RowUnpacker unpacker_;
  std::optional<kernel::RowUnpacker> narrow_;           ///< to uint16, tried first
  std::unique_ptr<const TransformedRows> transformed_;  ///< null: values are not transformed
  BatchLayout layout_;
  BatchShape shape_;
  size_t value_bytes_;
  std::shared_ptr<const std::vector<int64_t>> column_ids_;
  std::shared_ptr<BatchPool> pool_;
};

}  // namespace penstock::pipeline
