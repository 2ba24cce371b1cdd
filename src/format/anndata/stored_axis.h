#pragma once

#include <memory>
#include <string>

#include "format/chunked/array.h"
#include "format/stored_table.h"

namespace penstock::format::anndata {

/// obs or var of an AnnData: a group of columns. Row ids are row numbers. The index is the column
/// `names` ("obs_names" or "var_names"), whatever name it is stored under, unless another column
/// has that name. A stored column called soma_joinid is hidden by the row numbers. Columns of
/// encodings that are not read are not listed; asking for one is Unsupported, which says why.
///
/// Throws CorruptData if it is no table.
StoredTablePtr open_axis(chunked::GroupPtr group, const std::string& names, unsigned threads);

}  // namespace penstock::format::anndata
