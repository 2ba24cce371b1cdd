#pragma once

#include <penstock/loader.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernel/beside_rows.h"
#include "pipeline/batch/batch_assembler.h"
#include "pipeline/batch/batch_parts.h"

// Makes the batches of a loader: of one array, or of one array for each part. For parts, each row's
// record is cut into one for each of them. Immutable; many threads may make batches at once.

namespace penstock::pipeline {

class BatchMaker {
 public:
  /// `column_ids` (null: column i is i) are only used to find the parts and to name a gene.
  BatchMaker(const kernel::PackedRowLayout& rows, const LoaderOptions& options, uint32_t columns,
             std::shared_ptr<const std::vector<int64_t>> column_ids,
             std::shared_ptr<BatchPool> pool);

  /// Returns the bytes of a batch of rows with `nnz` stored non-zeros, at most. Throws
  /// InvalidArgument as BatchAssembler does.
  size_t batch_bytes(uint64_t rows, uint64_t nnz) const;

  /// Throws InvalidArgument that names value, cell and gene if a value does not fit the dtype.
  std::shared_ptr<const Batch> make(std::span<const PackedRowRef> rows,
                                    std::optional<uint32_t> repeated_row = {}) const;

 private:
  struct Cut;
  std::shared_ptr<Batch> assemble(size_t part, std::byte* at, std::shared_ptr<void> owner,
                                  std::span<const PackedRowRef> rows,
                                  std::optional<uint32_t> repeated_row) const;
  void cut(std::span<const PackedRowRef> rows, Cut& cut) const;

  kernel::PackedRowLayout rows_;
  std::optional<kernel::RowSplitter> splitter_;  ///< null: batches have no parts
  std::vector<std::unique_ptr<const BatchAssembler>> assemblers_;
  std::vector<std::string> names_;  ///< of the parts, for errors
  uint32_t columns_;
  std::shared_ptr<BatchPool> pool_;
};

}  // namespace penstock::pipeline
