#pragma once

#include <string>
#include <vector>

#include "format/stored_table.h"

namespace penstock::format {

/// Several tables whose ids are row numbers as one: the rows of the first, then those of the
/// second. Columns are those that any of them has, as in a join (joined/columns.h): rows of a table
/// without the column are null, and categories are merged. Filters go to each table, as in a join,
/// but see the row numbers of the whole. Reading a column whose values no type holds throws
/// InvalidArgument, which names the tables.
StoredTablePtr stack_tables(std::string uri, std::vector<StoredTablePtr> parts);

}  // namespace penstock::format
