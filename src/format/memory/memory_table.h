#pragma once

#include <penstock/experiment.h>
#include <penstock/table.h>

#include <string>
#include <vector>

#include "format/stored_table.h"

namespace penstock::format {

/// A table in memory: obs or var of an AnnData object. Row ids are row numbers. `columns` are of
/// `row_count` rows each; one called soma_joinid is hidden by the row numbers. Throws
/// InvalidArgument for columns of other lengths.
StoredTablePtr make_memory_table(std::string uri, std::vector<Column> columns, uint64_t row_count,
                                 UnreadColumns unread = {});

}  // namespace penstock::format
