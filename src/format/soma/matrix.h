#pragma once

#include <penstock/experiment.h>

#include <memory>
#include <optional>
#include <string>

#include "format/handle_access.h"
#include "format/tiledb/directory/timestamped_name.h"
#include "io/store.h"

namespace penstock::format::soma {

/// Reads schema and footers of an X layer; its source is opened on first use. Throws `Unsupported`
/// for an array that is not two-dimensional with int64 coordinates.
/// `rows`: the table of the matrix's rows, if there is one.
std::shared_ptr<const HandleAccess::MatrixState> open_matrix(const io::StorePtr& store,
                                                             const std::string& path,
                                                             tiledb::TimeRange range,
                                                             unsigned threads,
                                                             std::optional<DataFrame> rows);

}  // namespace penstock::format::soma
