#pragma once

#include <penstock/loader.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace penstock {

/// The only way to fill the private members of a Batch: the pipeline makes batches, users read
/// them.
struct BatchAccess {
  static std::shared_ptr<Batch> make() { return std::shared_ptr<Batch>(new Batch()); }
  static void set_shape(Batch& batch, uint32_t rows, uint32_t columns, uint64_t nnz, DataType dtype,
                        BatchLayout layout) {
    batch.rows_ = rows;
    batch.columns_ = columns;
    batch.nnz_ = nnz;
    batch.dtype_ = dtype;
    batch.layout_ = layout;
  }
  static void set_rows(Batch& batch, std::span<const int64_t> joinids,
                       std::span<const int64_t> positions) {
    batch.joinids_ = joinids;
    batch.positions_ = positions;
  }
  static void set_repeated_row(Batch& batch, std::optional<uint32_t> row) {
    batch.repeated_row_ = row;
  }
  static void set_values(Batch& batch, std::span<const int32_t> indptr,
                         std::span<const int32_t> indices, const std::byte* values) {
    batch.indptr_ = indptr;
    batch.indices_ = indices;
    batch.values_ = values;
  }
  static void set_lengths(Batch& batch, std::span<const int32_t> lengths) {
    batch.lengths_ = lengths;
  }
  static void set_missing(Batch& batch, std::span<const uint8_t> missing) {
    batch.missing_ = missing;
  }
  static void set_parts(Batch& batch, std::vector<std::shared_ptr<const Batch>> parts) {
    batch.parts_ = std::move(parts);
  }
  static void set_storage(Batch& batch, std::shared_ptr<void> storage) {
    batch.storage_ = std::move(storage);
  }
};

}  // namespace penstock
