#pragma once

#include <penstock/data_type.h>
#include <penstock/row_selection.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/row_reader.h"
#include "kernel/packed_row.h"
#include "plan/fetch_unit.h"

// A stored cells x genes matrix, as the pipeline sees it: fetch units that are fetched, decoded in
// parallel tasks and handed over as packed rows. Each format implements these three classes;
// nothing above knows which.
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
// Any call may throw a penstock::Error; the pipeline then drops the unit and ends the epoch with
// it.

namespace penstock::format {

struct MatrixInfo {
  int64_t row_domain_end = 0;     ///< rows are in [0, row_domain_end)
  int64_t column_domain_end = 0;  ///< columns are in [0, column_domain_end)
  DataType value_type = DataType::kFloat32;
  uint64_t stored_cells = 0;  ///< upper bound of non-zeros: cells in visible tiles
  uint64_t stored_bytes = 0;
  uint64_t tile_count = 0;
  uint32_t fragment_count = 0;
  std::string layout;  ///< for people: "row-major, tiles 2048 x 2048, capacity 65536"
};

class UnitDecode {
 public:
  virtual ~UnitDecode() = default;

  virtual void fetch() = 0;
  virtual size_t phase_count() const = 0;
  virtual size_t task_count(size_t phase) const = 0;  ///< known once the phases before are done
  virtual void run(size_t phase, size_t task) = 0;

  virtual uint32_t row_count() const = 0;  ///< the rows given to start(), empty ones included
  virtual uint32_t nnz(uint32_t row) const = 0;
  virtual size_t packed_bytes(uint32_t row) const = 0;  ///< kernel::PackedRowLayout::record_bytes
  virtual uint32_t wide_count(uint32_t row) const = 0;  ///< of its record; kernel::kRawRow
  virtual void pack(uint32_t row, std::byte* destination) const = 0;

  virtual uint64_t bytes_read() const = 0;           ///< from the store, after fetch()
  virtual uint64_t read_count() const { return 0; }  ///< reads that the store was asked for

  /// From a cache in the store's stead, after fetch(); 0 where the store was read.
  virtual uint64_t cached_bytes() const { return 0; }

  /// After fetch(), before phase 0: the buffers of a finished one of the same reader may be used.
  virtual void take_buffers(UnitDecode& /*finished*/) {}
};

class MatrixReader {
 public:
  virtual ~MatrixReader() = default;

  virtual const kernel::PackedRowLayout& row_layout() const = 0;

  /// Rows are joinids within the unit, ascending. `recycled` may pass in a finished UnitDecode of
  /// this reader, whose buffers are then used again.
  virtual std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                            std::unique_ptr<UnitDecode> recycled) const = 0;

  /// Memory that one unit takes in flight: stored bytes, decode buffers, staged rows.
  virtual uint64_t in_flight_bytes(uint32_t unit) const = 0;

  /// The part of it that a unit takes from fetch() to its first phase.
  virtual uint64_t fetched_bytes(uint32_t unit) const { return in_flight_bytes(unit); }

  /// fetch() waits for a network: more units should be on their way than are being decoded.
  virtual bool remote() const { return false; }

  /// Expected packed bytes of a stored cell after the choice of columns (about 3 for counts),
  /// measured on a few tiles spread over the store, the same for every call.
  virtual double packed_bytes_per_cell() const = 0;

  /// The same for the cells of one unit, where they are not all alike.
  virtual double packed_bytes_per_cell_of(uint32_t /*unit*/) const {
    return packed_bytes_per_cell();
  }

  /// Stored bytes of the distinct tiles that hold rows of `rows` (all columns of them that are
  /// read).
  virtual uint64_t bytes_needed(const RowSelection& rows) const = 0;

  /// Stored bytes that a visit of the unit reads for its rows in `rows`: its tiles with such
  /// rows and columns that are read, and, of a sparse layer, gaps that are read over. A cache
  /// counts as empty.
  virtual uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const = 0;

  /// Reads any of `rows` one by one, where the store can address each of them now; else null.
  virtual RowReaderPtr row_reader(const RowSelection& /*rows*/) const { return nullptr; }
};

class MatrixSource {
 public:
  virtual ~MatrixSource() = default;
  virtual const MatrixInfo& info() const = 0;
  virtual std::span<const plan::FetchUnit> units() const = 0;

  /// A text that tells what is stored from any other content, wherever it lies; empty where that is
  /// not known. What is written later changes it.
  virtual std::string content() const { return {}; }

  /// Whether each of these rows lies where it can be read by itself at this moment, of a source
  /// that cannot address rows by nature: a cache that has them. Asks no network.
  virtual bool keeps(const RowSelection& /*rows*/) const { return false; }

  /// `columns`: strictly ascending column ids; output column i is columns[i]. Ids outside the
  /// domain are InvalidArgument.
  virtual std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const = 0;
};

using MatrixSourcePtr = std::shared_ptr<const MatrixSource>;

}  // namespace penstock::format
