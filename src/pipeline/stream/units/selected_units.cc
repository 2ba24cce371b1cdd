#include "pipeline/stream/units/selected_units.h"

#include <penstock/error.h>

#include <algorithm>
#include <cmath>

#include "base/concat.h"
#include "pipeline/memory/packed_row_ref.h"

namespace penstock::pipeline {
namespace {

/// A bucket's table is made for all its rows when the first arrives: about twice the resident rows.
constexpr double kRowOverhead = 2 * sizeof(PackedRowRef) + sizeof(kernel::PackedRowHeader) + 4;
/// Rows do not cross pages. A page has at least 16 mean rows, so half a row in 16 is lost.
constexpr double kPageEnds = 1.04;

}  // namespace

std::vector<plan::UnitRows> selected_units(const format::MatrixSource& source,
                                           const format::MatrixReader& reader,
                                           const RowSelection& rows, const RowSelection* stored) {
  std::vector<plan::UnitRows> selected;
  const auto units = source.units();
  uint64_t covered = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    const plan::FetchUnit& unit = units[i];
    const uint64_t first = rows.rank(unit.row_begin);
    const uint64_t count = rows.rank(unit.row_end) - first;
    covered += count;
    if (count == 0) continue;
    auto unit_rows = static_cast<uint64_t>(unit.row_end - unit.row_begin);
    if (stored != nullptr && count < unit_rows) {
      unit_rows = std::max(count, stored->rank(unit.row_end) - stored->rank(unit.row_begin));
    }
    const double share = static_cast<double>(count) / static_cast<double>(unit_rows);
    const double cells = static_cast<double>(unit.cell_bound) * share;
    const double bytes_per_cell = reader.packed_bytes_per_cell_of(static_cast<uint32_t>(i));
    const double bytes =
        (cells * bytes_per_cell + static_cast<double>(count) * kRowOverhead) * kPageEnds;
    selected.push_back({static_cast<uint32_t>(i), first, static_cast<uint32_t>(count),
                        static_cast<uint64_t>(std::ceil(bytes))});
  }
  if (covered != rows.size()) {
    const int64_t end = units.empty() ? 0 : units.back().row_end;
    throw InvalidArgument(concat("selected rows are outside the matrix: ", rows.size() - covered,
                                 " of ", rows.size(), ", the last is ", rows.at(rows.size() - 1),
                                 ", rows of the matrix end at ", end));
  }
  return selected;
}

}  // namespace penstock::pipeline
