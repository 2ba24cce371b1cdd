#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "kernel/packed_row.h"

// Rows by themselves, in any order: what a store that can address a row gives beside its units
// (docs/design/0009-pack-cache-and-global-shuffle.md).
//
//   auto rows = reader->row_reader(selected);    null where only units can be read
//   RowBuffer buffer;                            one for each thread, used again
//   rows->read(joinids, buffer);                 buffer.record(i) is the packed row of joinids[i]

namespace penstock::format {

/// Packed rows that were read, and the memory of whoever reads them.
class RowBuffer {
 public:
  /// What a reader keeps from one read to the next; its own business.
  struct Scratch {
    virtual ~Scratch() = default;
    virtual size_t memory_bytes() const noexcept { return 0; }
  };

  size_t row_count() const noexcept { return records.size(); }
  size_t memory_bytes() const noexcept {
    return bytes.capacity() + records.capacity() * sizeof(const std::byte*) +
           nnz.capacity() * sizeof(uint32_t) + (scratch != nullptr ? scratch->memory_bytes() : 0);
  }

  std::vector<const std::byte*> records;  ///< kernel/packed_row.h, in the layout of the reader
  std::vector<uint32_t> nnz;
  Buffer bytes;               ///< where the records are
  uint64_t bytes_read = 0;    ///< from the store, by the last read
  uint64_t cached_bytes = 0;  ///< from a cache in its stead
  uint64_t read_count = 0;    ///< reads that the store was asked for
  std::unique_ptr<Scratch> scratch;
};

/// Immutable; any threads at once, each with a RowBuffer of its own.
class RowReader {
 public:
  virtual ~RowReader() = default;

  virtual const kernel::PackedRowLayout& row_layout() const = 0;

  /// Replaces what is in `out` by the rows with these ids, in any order, the same one as often as
  /// it comes. Ids without non-zeros have empty records; ids outside the domain are
  /// InvalidArgument.
  virtual void read(std::span<const int64_t> rows, RowBuffer& out) const = 0;

  /// Says that these rows are read soon. Returns at once, never throws for what it cannot do.
  virtual void prefetch(std::span<const int64_t> /*rows*/) const noexcept {}

  /// Expected memory of a row in a RowBuffer, scratch included.
  virtual double buffer_bytes_per_row() const = 0;

  /// How much could be read in the time that one read more takes; 0 where that is little.
  virtual uint64_t request_bytes() const { return 0; }

  /// Stored size of these rows, and of what has to be read with them.
  virtual uint64_t bytes_needed(std::span<const int64_t> rows) const = 0;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

}  // namespace penstock::format
