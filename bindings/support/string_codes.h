#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::python {

/// A string column as codes into its distinct values, so that Python makes one object for each
/// distinct string instead of one for each row.
struct StringCodes {
  std::vector<int32_t> codes;              ///< -1 for null
  std::vector<std::string_view> distinct;  ///< in order of first appearance; views of the column
};

/// Throws ResourceExhausted past 2^31 - 1 distinct strings.
StringCodes encode_strings(const Column& column);

}  // namespace penstock::python
