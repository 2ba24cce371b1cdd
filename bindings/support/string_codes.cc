#include "support/string_codes.h"

#include <penstock/error.h>

#include <limits>
#include <string>
#include <unordered_map>

namespace penstock::python {

StringCodes encode_strings(const Column& column) {
  if (!column.is_variable()) {
    throw InvalidArgument("not a string column, column " + column.name);
  }
  StringCodes coded;
  coded.codes.reserve(column.size());
  std::unordered_map<std::string_view, int32_t> code_of;
  for (uint64_t row = 0; row < column.size(); ++row) {
    if (!column.is_valid(row)) {
      coded.codes.push_back(-1);
      continue;
    }
    const auto next = coded.distinct.size();
    if (next >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw ResourceExhausted("too many distinct strings, column " + column.name);
    }
    const auto [entry, is_new] =
        code_of.try_emplace(column.string_at(row), static_cast<int32_t>(next));
    if (is_new) coded.distinct.push_back(entry->first);
    coded.codes.push_back(entry->second);
  }
  return coded;
}

}  // namespace penstock::python
