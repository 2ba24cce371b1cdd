#pragma once

#include <penstock/data_type.h>
#include <penstock/row_selection.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/row_bands.h"
#include "format/row_reader.h"
#include "kernel/packed_row.h"
#include "plan/fetch_unit.h"

// A stored cells x genes matrix, as the pipeline sees it. Its fetch units are fetched, decoded in
// parallel tasks and passed on as packed rows. Each format implements these three classes; no code
// above knows which format it is.
//
//   MatrixSource   what is stored: shape, type, units. Immutable, shared by threads and epochs.
//   MatrixReader   a source under a choice of columns. Immutable, shared by threads.
//   UnitDecode     one unit in flight; used by one pipeline, its tasks by many threads:
//
//     auto decode = reader->start(unit, rows);     cheap, no I/O
//     decode->fetch();                             blocking reads, one thread, once
//     for phase in 0 … decode->phase_count():      phases in order, a barrier between them
//       tasks 0 … decode->task_count(phase) run concurrently: decode->run(phase, task)
//     then rows can be packed, concurrently:       packed_bytes(row), pack(row, destination)
//
// Any call may throw a penstock::Error. The pipeline then drops the unit and ends the epoch with
// that error.

namespace penstock::format {

struct MatrixInfo {
  int64_t row_domain_end = 0;     ///< rows are in [0, row_domain_end)
  int64_t column_domain_end = 0;  ///< columns are in [0, column_domain_end)
  DataType value_type = DataType::kFloat32;
  uint64_t stored_cells = 0;  ///< upper bound of non-zeros: cells in visible tiles
  uint64_t stored_bytes = 0;
  uint64_t tile_count = 0;
  uint32_t fragment_count = 0;
  bool stored_by_columns = false;  ///< rows come from MatrixSource::row_bands only
  std::string layout;              ///< for people: "row-major, tiles 2048 x 2048, capacity 65536"
};

/// A row that stays in memory after its unit is decoded.
struct KeptRecord {
  const std::byte* record = nullptr;  ///< null: the row is not kept
  uint32_t stored_bytes = 0;  ///< of a bit-packed record (row_file/row_record.h); 0: a packed row
};

class UnitDecode {
 public:
  virtual ~UnitDecode() = default;

  virtual void fetch() = 0;
  virtual size_t phase_count() const = 0;
  virtual size_t task_count(size_t phase) const = 0;  ///< known once the earlier phases are done
  virtual void run(size_t phase, size_t task) = 0;

  virtual uint32_t row_count() const = 0;  ///< the rows given to start(), empty ones included
  virtual uint32_t nnz(uint32_t row) const = 0;
  virtual size_t packed_bytes(uint32_t row) const = 0;  ///< kernel::PackedRowLayout::record_bytes
  virtual uint32_t wide_count(uint32_t row) const = 0;  ///< of the row's record; or kernel::kRawRow
  virtual void pack(uint32_t row, std::byte* destination) const = 0;

  virtual uint64_t bytes_read() const = 0;           ///< from the store, after fetch()
  virtual uint64_t read_count() const { return 0; }  ///< number of reads from the store

  /// Bytes read from a cache instead of the store, after fetch(). 0 if the store was read.
  virtual uint64_t cached_bytes() const { return 0; }

  /// Where the row stays, after all phases: as long as the reader uses it (keep/keep_reader.h).
  /// Such a row need not be packed.
  virtual KeptRecord kept(uint32_t /*row*/) const { return {}; }
  /// Whether the unit was in memory before, so that nothing was fetched.
  virtual bool was_kept() const { return false; }

  /// Takes the buffers of a finished decode, if it is of the same kind. After fetch(), before
  /// phase 0.
  virtual void take_buffers(UnitDecode& /*finished*/) {}
};

class MatrixReader {
 public:
  virtual ~MatrixReader() = default;

  virtual const kernel::PackedRowLayout& row_layout() const = 0;

  /// Rows are joinids within the unit, ascending. `recycled` may be a finished UnitDecode,
  /// whose buffers are reused if they are of use.
  virtual std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                            std::unique_ptr<UnitDecode> recycled) const = 0;

  /// Memory that one unit takes in flight: stored bytes, decode buffers, staged rows.
  virtual uint64_t in_flight_bytes(uint32_t unit) const = 0;

  /// The part of in_flight_bytes() that is held from fetch() to the first phase.
  virtual uint64_t fetched_bytes(uint32_t unit) const { return in_flight_bytes(unit); }

  /// An upper bound, known without reading, of the memory that it takes to decode these few rows of
  /// a unit alone. 0 if no row and no tile is large.
  virtual uint64_t decode_bytes(uint32_t /*unit*/, std::span<const int64_t> /*rows*/) const {
    return 0;
  }

  /// True if fetch() waits for a network. More units should then be fetched than decoded at a time.
  virtual bool remote() const { return false; }

  /// Expected packed bytes of a stored cell after the choice of columns (about 3 for counts).
  /// Measured on a few tiles spread over the store; every call returns the same value.
  virtual double packed_bytes_per_cell() const = 0;

  /// The same for one unit, if units differ.
  virtual double packed_bytes_per_cell_of(uint32_t /*unit*/) const {
    return packed_bytes_per_cell();
  }

  /// Stored bytes of the distinct tiles that hold rows of `rows`, in all columns that are read.
  virtual uint64_t bytes_needed(const RowSelection& rows) const = 0;

  /// Stored bytes that a visit of the unit reads for its rows in `rows`: their tiles in the columns
  /// that are read and, for a sparse layer, the gaps that are read over. A cache counts as empty.
  virtual uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const = 0;

  /// Returns a reader of any of `rows` one by one, or null if the store cannot address them all
  /// now.
  virtual RowReaderPtr row_reader(const RowSelection& /*rows*/) const { return nullptr; }
};

class MatrixSource {
 public:
  virtual ~MatrixSource() = default;
  virtual const MatrixInfo& info() const = 0;
  virtual std::span<const plan::FetchUnit> units() const = 0;

  /// Whether all rows are in memory already, so that keeping them would be a second copy.
  virtual bool in_memory() const { return false; }

  /// A text that identifies the content, wherever it is stored. It changes with every write. Empty
  /// if the content is not known.
  virtual std::string content() const { return {}; }

  /// For a source that cannot address single rows by nature: whether a cache holds each of these
  /// rows now, so that they can be read one by one. Asks no network.
  virtual bool is_cached(const RowSelection& /*rows*/) const { return false; }

  /// Reads `rows` in passes over the whole matrix, if it is stored by columns. Such a matrix has no
  /// units, and its reader() throws Unsupported. Null for all others.
  virtual std::unique_ptr<RowBands> row_bands(const RowSelection& /*rows*/,
                                              const RowBandOptions& /*options*/) const {
    return nullptr;
  }

  /// The same rows for a caller that reads the units in order and one at a time, in memory that
  /// does not grow with the stored chunks. Its units are others, and slow to read in other orders.
  /// Null if the stored form does not allow it.
  virtual std::shared_ptr<const MatrixSource> in_order() const { return nullptr; }

  /// `columns`: strictly ascending column ids; output column i is columns[i]. Ids outside the
  /// domain are InvalidArgument.
  virtual std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const = 0;
};

using MatrixSourcePtr = std::shared_ptr<const MatrixSource>;

}  // namespace penstock::format
