#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "format/keep/keep_store.h"
#include "format/row_reader.h"

namespace penstock::format {

/// Returns a reader of rows that are all kept, in the columns that are chosen of those kept. Wide
/// rows with all kept columns are not copied. Null if a row or a column is not kept. The rows stay
/// in memory as long as the reader.
RowReaderPtr kept_row_reader(const KeepStore& store, const MatrixSource& source,
                             std::span<const int64_t> columns, const RowSelection& rows);

}  // namespace penstock::format
