#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "kernel/packed_row.h"

// Reads rows one by one, in any order. A store that can address single rows offers this beside its
// units (docs/design/0009-pack-cache-and-global-shuffle.md).
//
//   auto rows = reader->row_reader(selected);    null if only units can be read
//   RowBuffer buffer;                            one for each thread, reused
//   rows->read(joinids, buffer);                 buffer.record(i) is the packed row of joinids[i]

namespace penstock::format {

/// Packed rows that were read, and the memory that holds them.
class RowBuffer {
 public:
  /// State that a reader keeps between reads; private to the reader.
  struct Scratch {
    virtual ~Scratch() = default;
    virtual size_t memory_bytes() const noexcept { return 0; }
  };

  size_t row_count() const noexcept { return records.size(); }
  size_t memory_bytes() const noexcept {
    return bytes.capacity() + records.capacity() * sizeof(const std::byte*) +
           nnz.capacity() * sizeof(uint32_t) + (scratch != nullptr ? scratch->memory_bytes() : 0);
  }

  /// kernel/packed_row.h, in the layout of the reader. Values of rows in place live as long as the
  /// reader.
  std::vector<const std::byte*> records;
  std::vector<uint32_t> nnz;
  Buffer bytes;               ///< where the records are
  uint64_t bytes_read = 0;    ///< from the store, by the last read
  uint64_t cached_bytes = 0;  ///< from a cache instead, by the last read
  uint64_t read_count = 0;    ///< number of reads from the store, by the last read
  std::unique_ptr<Scratch> scratch;
};

/// Immutable. Many threads may read at once, each with its own RowBuffer.
class RowReader {
 public:
  virtual ~RowReader() = default;

  virtual const kernel::PackedRowLayout& row_layout() const = 0;

  /// Replaces the contents of `out` by the rows with these ids. Ids may be in any order and may
  /// repeat. Ids without non-zeros give empty records; ids outside the domain are InvalidArgument.
  virtual void read(std::span<const int64_t> rows, RowBuffer& out) const = 0;

  /// Announces that these rows will be read soon. Returns at once and never throws.
  virtual void prefetch(std::span<const int64_t> /*rows*/) const noexcept {}

  /// Expected memory of a row in a RowBuffer, scratch included.
  virtual double buffer_bytes_per_row() const = 0;

  /// Expected bytes of a packed row, also where rows are used in place.
  virtual double packed_bytes_per_row() const { return buffer_bytes_per_row(); }

  /// Whether the rows are in memory, so that no read waits.
  virtual bool in_memory() const { return false; }

  /// Whether rows that all fit in memory cost less if they are kept (keep/keep_reader.h).
  virtual bool prefers_kept() const { return false; }

  /// Returns how many bytes could be read in the time of one more read; 0 if few.
  virtual uint64_t request_bytes() const { return 0; }

  /// Returns the stored size of these rows and of the bytes that must be read with them.
  virtual uint64_t bytes_needed(std::span<const int64_t> rows) const = 0;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

}  // namespace penstock::format
