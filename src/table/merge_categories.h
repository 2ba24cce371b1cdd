#pragma once

#include <penstock/table.h>

#include <vector>

namespace penstock::table {

/// Gives enumerated columns the union of their categories, in order of first appearance, so that
/// they can be concatenated. Codes become int32. The union is ordered if all columns have the same
/// ordered categories in the same order. All columns must have categories, of one type.
void merge_categories(std::vector<Column>& columns);

}  // namespace penstock::table
