#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "format/chunked/array.h"

// Values of cells that are not stored.

namespace penstock::format::zarr {

/// Sets fill_value and fill_text of an array, whose type is set. `fill` is null, a number, a
/// boolean, "NaN", "Infinity", "-Infinity", the bits as "0x…", text for strings, base64 for strings
/// of bytes and for records. Throws CorruptData for a value that the type does not have.
void set_fill_value(chunked::ArrayInfo& info, const nlohmann::json& fill);

/// Bytes of base64 text (RFC 4648); none if it is not base64.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace penstock::format::zarr
