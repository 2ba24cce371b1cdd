#include "plan/cut/first_visits.h"

#include <algorithm>
#include <utility>

#include "plan/cut/rank_cut.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

/// Returns rows [begin, end) of a visit's part.
Visit part_of(const Visit& visit, uint32_t begin, uint32_t end) {
  Visit part = visit;
  part.part_begin = (visit.part_begin + begin) % visit.unit_rows;
  part.part_end = part.part_begin + (end - begin);
  part.packed_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(visit.packed_bytes) *
                                            (end - begin) / visit.row_count());
  return part;
}

/// A whole unit begins at a random row, so that each row is equally often among the first.
void begin_anywhere(Visit& visit, const EpochOptions& options) {
  if (visit.row_count() != visit.unit_rows) return;
  RandomStream random(
      hash_combine(random_key(options.seed, options.epoch, Purpose::kFirstParts), visit.unit));
  visit.part_begin = static_cast<uint32_t>(random.below(visit.unit_rows));
  visit.part_end = visit.part_begin + visit.unit_rows;
}

/// Number of parts that give first rows: more than one if there are few units. 0: stays whole.
uint32_t part_count(const Visit& visit, size_t units, uint32_t first_rows) {
  if (visit.repeats_row) return 0;
  const size_t visits = size_t{kFirstVisits} * kFirstRows / first_rows;
  const auto wanted = static_cast<uint32_t>((visits + units - 1) / units);
  return std::min(wanted, visit.row_count() / (2 * first_rows));
}

}  // namespace

std::vector<Visit> divide_first_visits(std::vector<Visit> visits, const EpochOptions& options) {
  const size_t units = std::min(kFirstVisits, visits.size());
  const uint32_t first_rows = units < kLeastUnitsCutByRows ? 2 * kFirstRows : kFirstRows;
  std::vector<Visit> divided, rests;
  for (uint32_t part = 0, most_parts = 1; part < most_parts; ++part) {
    for (size_t i = 0; i < units; ++i) {
      Visit& visit = visits[i];
      const uint32_t parts = part_count(visit, units, first_rows);
      if (parts == 0 && part == 0) divided.push_back(visit);
      if (part >= parts) continue;
      if (part == 0) begin_anywhere(visit, options);
      const auto begin_of = [&](uint32_t each) {
        return static_cast<uint32_t>(uint64_t{visit.row_count()} * each / parts);
      };
      const uint32_t middle = begin_of(part) + first_rows;
      divided.push_back(part_of(visit, begin_of(part), middle));
      rests.push_back(part_of(visit, middle, begin_of(part + 1)));
      most_parts = std::max(most_parts, parts);
    }
  }
  divided.insert(divided.end(), rests.begin(), rests.end());
  divided.insert(divided.end(), visits.begin() + static_cast<std::ptrdiff_t>(units), visits.end());
  return divided;
}

}  // namespace penstock::plan
