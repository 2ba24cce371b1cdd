#pragma once

#include <string>

#include "format/chunked/array.h"
#include "format/stored_table.h"

namespace penstock::format::anndata {

/// obs or var as anndata wrote it before 0.7: an array of records, whose first field is the index.
/// Codes of a column `name` have their categories in the array `name_categories` of the group
/// `categories` (uns; null if there is none). What anndata takes for codes, this does: integers
/// that are all below the number of categories. Column names are as in stored_axis.h.
StoredTablePtr open_record_axis(chunked::ArrayPtr records, const chunked::GroupPtr& categories,
                                const std::string& names, unsigned threads);

}  // namespace penstock::format::anndata
