#include "format/unit_rows.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::format {

void check_unit_rows(std::span<const plan::FetchUnit> units, uint32_t unit,
                     std::span<const int64_t> rows) {
  if (unit >= units.size()) throw InvalidArgument(concat("no fetch unit ", unit));
  const plan::FetchUnit& place = units[unit];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < place.row_begin || rows[i] >= place.row_end ||
        (i != 0 && rows[i] <= rows[i - 1])) {
      throw InvalidArgument(
          concat("row ", rows[i], " is not in fetch unit ", unit, " or out of order"));
    }
  }
}

}  // namespace penstock::format
