#include "plan/order/global_visits.h"

#include <algorithm>
#include <cmath>

namespace penstock::plan {
namespace {

size_t unit_of(std::span<const UnitRows> units, uint64_t position) {
  const auto after =
      std::upper_bound(units.begin(), units.end(), position,
                       [](uint64_t at, const UnitRows& each) { return at < each.first_position; });
  return static_cast<size_t>(after - units.begin()) - 1;
}

Visit visit_of(const UnitRows& unit, uint32_t rows) {
  Visit visit;
  visit.unit = unit.unit;
  visit.first_position = unit.first_position;
  visit.selected_rows = unit.row_count;
  visit.unit_rows = rows;
  visit.part_end = rows;
  visit.packed_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(unit.packed_bytes) *
                                             rows / unit.row_count);
  return visit;
}

}  // namespace

ChunkVisits global_visits(std::span<const UnitRows> units, const GlobalOrder& order,
                          uint64_t block_rows) {
  ChunkVisits result;
  std::vector<uint32_t> counts(units.size());
  for (uint64_t begin = 0; begin < order.row_count(); begin += block_rows) {
    const uint64_t end = begin + std::min(block_rows, order.row_count() - begin);
    size_t repeats = units.size();
    for (uint64_t slot = begin; slot < end; ++slot) {
      const size_t unit = unit_of(units, order.position(slot));
      ++counts[unit];
      if (order.repeated_slot() == slot) repeats = unit;
    }
    for (size_t unit = 0; unit < units.size(); ++unit) {
      if (counts[unit] == 0) continue;
      result.visits.push_back(visit_of(units[unit], counts[unit]));
      result.visits.back().repeats_row = unit == repeats;
      counts[unit] = 0;
    }
    result.block_begin.push_back(result.visits.size());
  }
  return result;
}

// The block that leaves, the next one, and visits ahead; or all rows.
uint64_t global_block_rows(std::span<const UnitRows> units, uint64_t budget_bytes,
                           uint32_t units_ahead, uint64_t page_bytes) {
  uint64_t rows = 0, bytes = 0;
  for (const UnitRows& unit : units) {
    rows += unit.row_count;
    bytes += unit.packed_bytes;
  }
  if (rows == 0) return 1;
  if (bytes + page_bytes <= budget_bytes) return rows + 1;  // with the row that kPad repeats
  const uint64_t pages = (uint64_t{units_ahead} + 3) * page_bytes;
  const uint64_t left = budget_bytes > pages ? budget_bytes - pages : 0;
  const double row_bytes = static_cast<double>(bytes) / static_cast<double>(rows);
  const double block = std::floor(static_cast<double>(left) / row_bytes / 2);
  return std::clamp<uint64_t>(static_cast<uint64_t>(block), 1, rows + 1);
}

}  // namespace penstock::plan
