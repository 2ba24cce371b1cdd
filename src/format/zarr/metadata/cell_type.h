#pragma once

#include <nlohmann/json.hpp>

#include "format/chunked/array.h"

// Data types of arrays, as each version names them.

namespace penstock::format::zarr {

/// Longest cell of fixed size: long fixed strings.
inline constexpr uint32_t kMostCellBytes = uint32_t{1} << 24;

/// Sets the type, cell size, string form and byte order of version 2: "<f4", "|b1", "|S5", "<U4",
/// "|O", [["index", "|S18"], …] for records. Objects are strings of variable length; the caller
/// checks their filter. Throws Unsupported for other types.
void set_v2_type(chunked::ArrayInfo& info, const nlohmann::json& dtype);

/// The same of version 3: "float32", "string", {"name": "fixed_length_utf32", …}. Byte order is the
/// codec's.
void set_v3_type(chunked::ArrayInfo& info, const nlohmann::json& data_type);

}  // namespace penstock::format::zarr
