#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "format/stored_table.h"

namespace penstock::format::anndata {

/// Takes an object of the table: its path below the table's group, and its bytes.
using PutObject = std::function<void(const std::string& path, std::span<const std::byte> bytes)>;

/// Writes a table as AnnData stores it in zarr version 3, encoding dataframe 0.2.0, so that
/// open_axis() and anndata.io.read_elem read it. The column `index` becomes the index; without one
/// of that name, the row numbers do. Numbers are chunks of zstd, a million rows each, with
/// consolidated metadata. Row ids must be row numbers: they are not written.
///
/// Throws Unsupported for a column of a type that AnnData has no encoding for.
void write_table(const StoredTable& table, const std::string& index, const PutObject& put);

}  // namespace penstock::format::anndata
