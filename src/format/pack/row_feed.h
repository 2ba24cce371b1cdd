#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "format/matrix_source.h"
#include "format/row_file/encode_unit.h"

// Where a layer's writer gets encoded rows from, in order. A row is named by its position among the
// rows that are packed.
//
//   unit feed     matrices that have units: as many at a time as fit in the budget, on many threads
//   ordered feed  the same with chunks that are too large or decoded for many units:
//                 MatrixSource::in_order(), on one thread
//   band feed     matrices stored by columns: bands of rows (format/row_bands.h)

namespace penstock::format::pack {

class RowFeed {
 public:
  virtual ~RowFeed() = default;

  /// Encodes rows from position `first` on, not to `last` or beyond it. Empty if it only read on:
  /// then call it again. `first` only grows, and `last` is the end of a file (row_file_plan.h).
  virtual std::vector<EncodedRows> next(uint64_t first, uint64_t last) = 0;

  /// Of a band feed.
  virtual PassProgress passes() const { return {}; }
};

/// The feed that fits the source. All `column_count` columns are encoded. Throws ResourceExhausted,
/// with the least budget, if a unit does not fit and there is no other way.
std::unique_ptr<RowFeed> make_row_feed(MatrixSourcePtr source, const RowSelection& rows,
                                       uint64_t column_count, const RowBandOptions& options);

}  // namespace penstock::format::pack
