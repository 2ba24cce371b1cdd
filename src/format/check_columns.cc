#include "format/check_columns.h"

#include <penstock/error.h>

#include <cstddef>

#include "base/concat.h"

namespace penstock::format {

void check_columns(std::span<const int64_t> columns, int64_t domain_end) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] < 0 || columns[i] >= domain_end) {
      throw InvalidArgument(concat("column ", columns[i], " is outside 0 … ", domain_end - 1));
    }
    if (i != 0 && columns[i] <= columns[i - 1]) {
      throw InvalidArgument(
          concat("columns must ascend strictly: ", columns[i - 1], " is followed by ", columns[i]));
    }
  }
}

}  // namespace penstock::format
