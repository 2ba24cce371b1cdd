#include "plan/cut/rank_cut.h"

#include <algorithm>
#include <numeric>

#include "plan/cut/apportion.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

uint64_t bytes_of_part(const UnitRows& unit, uint64_t rows) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(unit.packed_bytes) * rows /
                               unit.row_count);
}

Visit visit_part(const UnitRows& unit, uint32_t part_begin, uint32_t part_end) {
  return {.unit = unit.unit,
          .first_position = unit.first_position,
          .unit_rows = unit.row_count,
          .part_begin = part_begin,
          .part_end = part_end,
          .packed_bytes = bytes_of_part(unit, part_end - part_begin),
          .selected_rows = unit.selected_rows(),
          .repeat = unit.repeat};
}

// Rows [part_begin, part_end) of units[index], in the unit's order of the epoch (begin_in_unit).
struct Piece {
  uint32_t index;
  uint32_t part_begin;
  uint32_t part_end;
  bool leaves_out;  // some rows of the unit are left out
};

// Rows of the stream that no share takes.
struct Gap {
  uint64_t begin;
  uint64_t end;
};

std::vector<Piece> whole_units(std::span<const UnitRows> units, std::span<const uint32_t> order,
                               std::span<const Gap> gaps) {
  std::vector<Piece> pieces;
  pieces.reserve(order.size());
  uint64_t begin = 0;
  size_t gap = 0;
  for (const uint32_t index : order) {
    const uint64_t end = begin + units[index].row_count;
    while (gap < gaps.size() && gaps[gap].end <= begin) ++gap;
    const bool leaves_out = gap < gaps.size() && gaps[gap].begin < end;
    pieces.push_back({index, 0, units[index].row_count, leaves_out});
    begin = end;
  }
  return pieces;
}

// Returns rows [begin, end) of the pieces' rows.
std::vector<Piece> stretch_of(std::span<const Piece> pieces, uint64_t begin, uint64_t end) {
  std::vector<Piece> stretch;
  uint64_t row = 0;
  for (const Piece& piece : pieces) {
    if (row >= end) break;
    const uint64_t next = row + piece.part_end - piece.part_begin;
    const uint64_t first = std::max(begin, row), last = std::min(end, next);
    if (first < last) {
      stretch.push_back({piece.index, static_cast<uint32_t>(piece.part_begin + (first - row)),
                         static_cast<uint32_t>(piece.part_begin + (last - row)), piece.leaves_out});
    }
    row = next;
  }
  return stretch;
}

uint64_t part_key(const UnitRows& unit, const EpochOptions& options) {
  return hash_combine(random_key(options.seed, options.epoch, Purpose::kUnitParts),
                      (uint64_t{unit.unit} << 32) | unit.repeat);
}

// Returns where a piece starts among the unit's rows. For stored rows, a unit's order in the epoch
// is the store's or its reverse, by a coin toss, so each rank gets other rows in other epochs. If
// rows are left out, it is the store's order from a random row on, with wrap-around, so that each
// row is equally likely to be left out.
uint32_t begin_in_unit(const Piece& piece, std::span<const UnitRows> units,
                       const EpochOptions& options) {
  const UnitRows& unit = units[piece.index];
  const uint32_t rows = unit.row_count;
  if (!options.shuffle || !parts_are_stored_rows(units, options) ||
      piece.part_end - piece.part_begin == rows) {
    return piece.part_begin;
  }
  RandomStream random(part_key(unit, options));
  if (piece.leaves_out) {
    return static_cast<uint32_t>((piece.part_begin + random.below(rows)) % rows);
  }
  return random.next() % 2 != 0 ? rows - piece.part_end : piece.part_begin;
}

// Ranks [first_rank, end_rank) visit the same units.
struct Group {
  uint64_t first_rank = 0;
  uint64_t end_rank = 0;
};

// Returns the number of groups of ranks; sizes differ by at most one.
uint64_t groups_of(uint64_t units, const EpochOptions& options) {
  const uint64_t world = options.shard.world_size;
  if (!options.shuffle || units == 0 || units / world >= kLeastUnitsPerRank) return world;
  const uint64_t wanted = std::min(world, (kLeastUnitsPerRank * world + units - 1) / units);
  return std::max<uint64_t>(1, world / wanted);
}

Group group_of(uint64_t rank, uint64_t units, const EpochOptions& options) {
  const uint64_t world = options.shard.world_size;
  const uint64_t groups = groups_of(units, options);
  uint64_t index = rank * groups / world;
  while (even_boundary(world, groups, index) > rank) --index;
  while (even_boundary(world, groups, index + 1) <= rank) ++index;
  return {even_boundary(world, groups, index), even_boundary(world, groups, index + 1)};
}

// Returns the shares of a group's ranks, in the order of the stream. Each keeps a part of every
// unit.
std::vector<Share> takers_of(const Group& group, uint64_t rows, EpochOptions options) {
  options.shard.num_workers = 1;
  std::vector<Share> takers;
  for (uint64_t rank = group.first_rank; rank < group.end_rank; ++rank) {
    takers.push_back(share_of(rows, options, static_cast<uint32_t>(rank), 0));
  }
  return takers;
}

uint64_t rows_of(std::span<const Share> takers) {
  uint64_t rows = 0;
  for (const Share& taker : takers) rows += taker.end - taker.begin;
  return rows;
}

// The ranks of a group leave out the last rows of its stretch.
std::vector<Gap> gaps_of(uint64_t rows, uint64_t units, const EpochOptions& options) {
  std::vector<Gap> gaps;
  uint64_t position = 0;
  for (uint64_t rank = 0; rank < options.shard.world_size;) {
    const Group group = group_of(rank, units, options);
    const auto takers = takers_of(group, rows, options);
    const uint64_t begin = takers.front().begin;
    if (begin > position) gaps.push_back({position, begin});
    position = begin + rows_of(takers);
    rank = group.end_rank;
  }
  if (position < rows) gaps.push_back({position, rows});
  return gaps;
}

// Returns the part of every piece that takers[own] keeps. The first taker in a unit is drawn for
// each unit.
std::vector<Piece> dealt(std::span<const UnitRows> units, std::span<const Piece> pieces,
                         std::span<const Share> takers, size_t own, const EpochOptions& options) {
  std::vector<uint64_t> quotas;
  for (const Share& taker : takers) quotas.push_back(taker.end - taker.begin);
  Apportion apportion(quotas);
  std::vector<Piece> kept;
  std::vector<size_t> turns(quotas.size());
  for (const Piece& piece : pieces) {
    const auto counts = apportion.deal(piece.part_end - piece.part_begin);
    if (counts[own] == 0) continue;
    std::iota(turns.begin(), turns.end(), size_t{0});
    RandomStream random(hash_combine(part_key(units[piece.index], options), turns.size()));
    for (size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[random.below(i)]);
    uint64_t first = piece.part_begin;
    for (size_t i = 0; turns[i] != own; ++i) first += counts[turns[i]];
    kept.push_back({piece.index, static_cast<uint32_t>(first),
                    static_cast<uint32_t>(first + counts[own]), piece.leaves_out});
  }
  return kept;
}

// kPad: some visit keeps one more row, which another share also has or which occurs twice here. No
// extra unit is read for it unless the share is otherwise empty.
void repeat_row(std::span<const UnitRows> units, const EpochOptions& options,
                std::vector<Visit>& visits) {
  const Shard& shard = options.shard;
  RandomStream random(hash_combine(random_key(options.seed, options.epoch, Purpose::kPadding),
                                   uint64_t{shard.rank} * shard.num_workers + shard.worker));
  if (visits.empty()) {
    const UnitRows& unit = options.shuffle ? units[random.below(units.size())] : units.back();
    const auto row =
        options.shuffle ? static_cast<uint32_t>(random.below(unit.row_count)) : unit.row_count - 1;
    visits.push_back(visit_part(unit, row, row + 1));
    visits.back().repeats_row = true;
    visits.back().repeated_row = row;
    return;
  }
  Visit& visit = options.shuffle ? visits[random.below(visits.size())] : visits.back();
  visit.repeated_row =
      options.shuffle ? static_cast<uint32_t>(random.below(visit.unit_rows)) : visit.part_end - 1;
  ++visit.part_end;
  visit.repeats_row = true;
  visit.packed_bytes += visit.packed_bytes / (visit.row_count() - 1);
}

}  // namespace

bool is_alone(const EpochOptions& options) {
  return options.shard.world_size == 1 && options.shard.num_workers == 1;
}

bool fits_at_once(uint64_t rows, const EpochOptions& options) {
  return rows <= 2 * options.prefill_rows;
}

bool parts_are_stored_rows(std::span<const UnitRows> units, const EpochOptions& options) {
  if (units.size() >= kLeastUnitsCutByRows) return true;
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  return is_alone(options) && !fits_at_once(rows, options);
}

uint32_t active_workers_of(size_t units, const EpochOptions& options) {
  if (options.chunk_rows != 0 || options.global_order) return options.shard.num_workers;
  const uint64_t world = options.shard.world_size;
  const uint64_t ranks = world / groups_of(units, options);  // of the smallest group
  const uint64_t units_of_rank = units * ranks / world;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(units_of_rank / kLeastUnitsPerWorker, 1, options.shard.num_workers));
}

std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options) {
  std::vector<double> parts;
  for (uint64_t first = 0; first < options.shard.world_size;) {
    const Group group = group_of(first, units, options);
    const auto takers = takers_of(group, rows, options);
    uint64_t total = 0;
    for (const Share& taker : takers) total += taker.row_count();
    for (const Share& taker : takers) {
      if (taker.row_count() == 0) continue;
      parts.push_back(takers.size() == 1
                          ? 1.0
                          : static_cast<double>(taker.row_count()) / static_cast<double>(total));
    }
    first = group.end_rank;
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

std::vector<Visit> cut_visits(std::span<const UnitRows> units, std::span<const uint32_t> order,
                              const EpochOptions& options) {
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  const Shard& shard = options.shard;
  const Group group = group_of(shard.rank, units.size(), options);
  const auto takers = takers_of(group, rows, options);
  const auto own = static_cast<size_t>(shard.rank - group.first_rank);
  const auto gaps = options.shuffle ? gaps_of(rows, units.size(), options) : std::vector<Gap>();
  const uint64_t own_begin = takers[own].begin;
  const uint64_t group_begin = takers.front().begin;
  auto pieces =
      stretch_of(whole_units(units, order, gaps), group_begin, group_begin + rows_of(takers));
  if (takers.size() > 1) pieces = dealt(units, pieces, takers, own, options);
  const Share share = share_of(rows, options, shard.rank, shard.worker);
  std::vector<Visit> visits;
  for (const Piece& piece : stretch_of(pieces, share.begin - own_begin, share.end - own_begin)) {
    const uint32_t begin = begin_in_unit(piece, units, options);
    visits.push_back(
        visit_part(units[piece.index], begin, begin + piece.part_end - piece.part_begin));
  }
  if (share.repeats_row) repeat_row(units, options, visits);
  return visits;
}

}  // namespace penstock::plan
