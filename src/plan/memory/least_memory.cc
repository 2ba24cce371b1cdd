#include "plan/memory/least_memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/cut/rank_cut.h"
#include "plan/memory/densest_rows.h"
#include "plan/order/chunk_visits.h"

namespace penstock::plan {
namespace {

/// Rows by which a share of a unit may differ from its due. Apportion (apportion.h) never deals
/// more than the due rounded up. A taker that is behind has to catch up at most a logarithm of the
/// takers, as always if the neediest comes first (Adler et al., "A proportionate fair scheduling
/// rule with good worst-case performance", SPAA 2003). Takers are a group's ranks.
double part_slack(double part) {
  if (part >= 1) return 0;
  const double takers = std::ceil(1 / part);
  return std::ceil(1 + std::log(takers) + 1);
}

/// Rows between the first and the last bucket of a batch if each visit is a bucket, which are fewer
/// than the batch has: the most visits that they span, and their bytes.
struct Middle {
  uint64_t visits = 0;
  double bytes = 0;
};

Middle middle_of(std::span<const UnitRows> by_rows, std::span<const UnitRows> by_density,
                 uint64_t batch_rows, double part) {
  Middle middle;
  const double slack = part_slack(part);
  const double rows_between = batch_rows < 2 ? 0 : static_cast<double>(batch_rows - 2);
  double room = rows_between;
  for (const UnitRows& unit : by_rows) {
    room -= std::max(1.0, unit.row_count * part - slack);
    if (room < 0) break;
    ++middle.visits;
  }
  room = rows_between;
  for (size_t i = 0; i < by_density.size() && room > 0; ++i) {
    const double rows = std::min(room, by_density[i].row_count * part + slack);
    middle.bytes +=
        rows * static_cast<double>(by_density[i].packed_bytes) / by_density[i].row_count;
    room -= rows;
  }
  return middle;
}

}  // namespace

uint64_t least_row_bytes(std::span<const UnitRows> units, const EpochOptions& options,
                         uint32_t units_ahead, uint64_t page_bytes) {
  if (units.empty()) return 0;
  if (options.global_order) {  // blocks of a batch
    EpochOptions rows = options;
    rows.chunk_rows = 1;
    rows.chunks_per_block =
        static_cast<uint32_t>(std::min<uint64_t>(most_batch_rows(options), UINT32_MAX));
    return least_chunk_bytes(units, rows, units_ahead, page_bytes);
  }
  if (options.chunk_rows != 0) return least_chunk_bytes(units, options, units_ahead, page_bytes);
  std::vector<UnitRows> by_rows(units.begin(), units.end());
  std::vector<UnitRows> by_density = by_rows;
  std::vector<UnitRows> by_bytes = by_rows;
  std::sort(by_rows.begin(), by_rows.end(),
            [](const auto& a, const auto& b) { return a.row_count < b.row_count; });
  std::sort(by_density.begin(), by_density.end(),
            [](const auto& a, const auto& b) { return density(a) > density(b); });
  std::sort(by_bytes.begin(), by_bytes.end(),
            [](const auto& a, const auto& b) { return a.packed_bytes > b.packed_bytes; });
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  const double densest = density(by_density.front());
  // At most all rows and a repeated one.
  const double all_bytes = static_cast<double>(rows + 1) * densest_row_bytes(units, rows + 1);

  double least = 0;
  for (const double part : unit_parts(rows, units.size(), options)) {
    const Middle middle = middle_of(by_rows, by_density, most_batch_rows(options), part);
    // A batch's first and last visit, and the units ahead.
    const uint64_t whole = std::min<uint64_t>(units.size(), uint64_t{units_ahead} + 2);
    double bytes = middle.bytes;
    for (size_t i = 0; i < whole; ++i)
      bytes += static_cast<double>(by_bytes[i].packed_bytes) * part;
    const uint64_t visits = std::min<uint64_t>(units.size(), whole + middle.visits);
    const double repeated = options.uneven == UnevenRows::kPad ? 1 : 0;
    bytes += (static_cast<double>(visits) * part_slack(part) + repeated) * densest;
    bytes = std::min(bytes, all_bytes);
    least = std::max(least, bytes + static_cast<double>(visits * page_bytes));
  }
  return static_cast<uint64_t>(std::ceil(least));
}

}  // namespace penstock::plan
