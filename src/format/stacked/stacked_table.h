#pragma once

#include <string>
#include <vector>

#include "format/stored_table.h"

namespace penstock::format {

/// Several tables whose ids are row numbers as one: the rows of the first, then those of the
/// second. Columns are those of the first; categories are merged. Throws CorruptData if another
/// table lacks one of them or has another type.
StoredTablePtr stack_tables(std::string uri, std::vector<StoredTablePtr> parts);

}  // namespace penstock::format
