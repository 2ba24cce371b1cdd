#include "plan/memory/densest_rows.h"

#include <algorithm>
#include <vector>

namespace penstock::plan {
namespace {

bool denser(const UnitRows& a, const UnitRows& b) { return density(a) > density(b); }

}  // namespace

double densest_row_bytes(std::span<const UnitRows> units, uint64_t row_count) {
  if (units.empty()) return 0;
  const auto densest = std::min_element(units.begin(), units.end(), denser);
  if (densest->row_count >= row_count) return density(*densest);
  std::vector<UnitRows> by_density(units.begin(), units.end());
  std::sort(by_density.begin(), by_density.end(), denser);
  double bytes = 0;
  uint64_t left = row_count;
  for (const UnitRows& unit : by_density) {
    const uint64_t rows = std::min<uint64_t>(left, unit.row_count);
    bytes += static_cast<double>(rows) * density(unit);
    left -= rows;
    if (left == 0) break;
  }
  bytes += static_cast<double>(left) * density(by_density.front());
  return bytes / static_cast<double>(row_count);
}

}  // namespace penstock::plan
