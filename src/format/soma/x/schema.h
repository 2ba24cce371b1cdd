#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/tiledb/schema/array_schema.h"
#include "plan/fetch_unit.h"

// Code that sparse and dense X arrays share: which schemas are matrices, their shape, and the units
// of the rows behind the last cell. Stateless.

namespace penstock::format::soma {

/// Throws Unsupported, naming `path`, unless there are two int64 dimensions that start at 0 or
/// above.
void check_matrix_schema(const tiledb::ArraySchema& schema, const std::string& path);

/// Returns the attribute with the values: soma_data, or the only one. Throws Unsupported unless it
/// has one number a cell.
const tiledb::Attribute& matrix_attribute(const tiledb::ArraySchema& schema,
                                          const std::string& path);

/// Returns the end of the rows (0) or columns (1) that may exist: of the current domain, if any.
int64_t domain_end(const tiledb::ArraySchema& schema, size_t dimension);

/// Appends units without tiles for rows [begin, end). A huge rest is one unit.
void append_empty_units(std::vector<plan::FetchUnit>& units, int64_t begin, int64_t end);

/// Returns a text like "row-major, tiles 2048 x 2048, capacity 65536".
std::string layout_text(const tiledb::ArraySchema& schema);

}  // namespace penstock::format::soma
