#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/tiledb/schema/array_schema.h"
#include "plan/fetch_unit.h"

// What sparse and dense X arrays share: which schemas are matrices, their shape, and the units of
// the rows behind the last cell. Stateless.

namespace penstock::format::soma {

/// Two int64 dimensions from 0 or above; else Unsupported, with `path` in the message.
void check_matrix_schema(const tiledb::ArraySchema& schema, const std::string& path);

/// The attribute with the values: soma_data, or the only one. One number a cell, else Unsupported.
const tiledb::Attribute& matrix_attribute(const tiledb::ArraySchema& schema,
                                          const std::string& path);

/// End of the rows (0) or columns (1) that can be there: the current domain where there is one.
int64_t domain_end(const tiledb::ArraySchema& schema, size_t dimension);

/// Units without tiles for rows [begin, end); a huge rest is one unit.
void append_empty_units(std::vector<plan::FetchUnit>& units, int64_t begin, int64_t end);

/// "row-major, tiles 2048 x 2048, capacity 65536"
std::string layout_text(const tiledb::ArraySchema& schema);

}  // namespace penstock::format::soma
