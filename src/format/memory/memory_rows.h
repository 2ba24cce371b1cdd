#pragma once

#include <penstock/memory.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/matrix_source.h"

namespace penstock::format {

/// The entries of one row, in the stored type. Views live until the next call with the same object.
struct RowEntries {
  std::span<const uint32_t> indices;  ///< ascending output columns
  const std::byte* values = nullptr;
  // Memory that is reused:
  std::vector<uint32_t> index_memory, order;
  std::vector<std::byte> value_memory, sorted_values;
};

/// Rows of a matrix in memory under a choice of columns. Immutable, any thread.
class MemoryRows {
 public:
  virtual ~MemoryRows() = default;

  /// Most entries that the row can have.
  virtual uint64_t most_entries(int64_t row) const = 0;
  /// Throws InvalidArgument if the row's ids are not columns.
  virtual void read(int64_t row, RowEntries& out) const = 0;

  /// Writes a record whose values stay in the caller's memory (kernel::kInPlaceRow), of at most
  /// `most` entries, and returns its bytes. 0 if the row must be packed: its columns do not ascend
  /// or only some are chosen. Throws as read().
  virtual size_t write_in_place(int64_t /*row*/, uint64_t /*most*/,
                                const kernel::PackedRowLayout& /*layout*/,
                                std::byte* /*record*/) const {
    return 0;
  }
};

/// What a source in memory is made of.
class MemoryMatrix {
 public:
  virtual ~MemoryMatrix() = default;
  virtual const MatrixInfo& info() const = 0;
  /// Stored entries of rows [begin, end); cells of a dense matrix.
  virtual uint64_t entries(int64_t begin, int64_t end) const = 0;
  virtual std::unique_ptr<const MemoryRows> rows(std::span<const int64_t> columns) const = 0;
};

std::shared_ptr<const MemoryMatrix> make_csr_matrix(CsrInMemory matrix);
std::shared_ptr<const MemoryMatrix> make_dense_matrix(DenseInMemory matrix);

}  // namespace penstock::format
