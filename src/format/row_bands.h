#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/packed_row.h"

// Rows of a matrix that is stored by columns. One row is spread over all of what is stored, so rows
// come in bands: a pass over the whole matrix collects the rows of one band, as many as fit in the
// memory. Packs are made this way. A loader refuses such a matrix, as each unit would be a pass.
//
//   while (!bands->collect(row)) …           reads on for a moment; rows from `row` on are wanted
//   for each row in [row, bands->end()):     any threads
//     bands->pack(row, record)

namespace penstock::format {

/// Also for sources that have units: format/pack/row_feed.h.
struct RowBandOptions {
  uint64_t memory_budget = uint64_t{2} << 30;
  unsigned threads = 0;  ///< 0: as many as cores
};

/// How far the reading is. The first pass counts the non-zeros of each row.
struct PassProgress {
  uint32_t pass = 0;    ///< that is read, from 1 on; 0: none was needed so far
  uint32_t passes = 0;  ///< in all; 0 until the first pass is complete
  double share = 0;     ///< of the pass, from 0 to 1
};

/// For one thread, but pack() and nnz() for many.
class RowBands {
 public:
  virtual ~RowBands() = default;

  /// Layout of packed rows, which have all columns.
  virtual const kernel::PackedRowLayout& row_layout() const = 0;

  /// Reads some megabytes towards the band that begins with `row`. Returns true if the band in
  /// memory has the row. The band before is dropped when another begins.
  virtual bool collect(int64_t row) = 0;

  /// The first row behind the band in memory.
  virtual int64_t end() const = 0;

  /// Non-zeros of a row of the band; 0 for a row that was not chosen.
  virtual uint32_t nnz(int64_t row) const = 0;
  /// Writes the packed row of a row of the band to `record`, which grows.
  virtual void pack(int64_t row, std::vector<uint64_t>& record) const = 0;

  /// Rows with so many non-zeros together can be encoded at a time within the budget.
  virtual uint64_t nonzeros_at_once() const = 0;

  virtual PassProgress progress() const = 0;
};

/// Throws the Unsupported of all who need single rows or units of a matrix stored by columns.
[[noreturn]] void refuse_stored_by_columns(const std::string& path);

}  // namespace penstock::format
