#include "plan/rank_cut.h"

#include <algorithm>

#include "plan/apportion.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

uint64_t bytes_of_part(const UnitRows& unit, uint64_t rows) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(unit.packed_bytes) * rows /
                               unit.row_count);
}

Visit visit_part(const UnitRows& unit, uint32_t part_begin, uint32_t part_end) {
  return {unit.unit,      unit.first_position,
          unit.row_count, part_begin,
          part_end,       bytes_of_part(unit, part_end - part_begin),
          false,          unit.selected_rows(),
          unit.repeat};
}

// Rows [part_begin, part_end) of units[index].
struct Piece {
  uint32_t index;
  uint32_t part_begin;
  uint32_t part_end;
};

std::vector<Piece> whole_units(std::span<const UnitRows> units, std::span<const uint32_t> order) {
  std::vector<Piece> pieces;
  pieces.reserve(order.size());
  for (const uint32_t index : order) pieces.push_back({index, 0, units[index].row_count});
  return pieces;
}

// Rows [begin, end) of what the pieces have.
std::vector<Piece> stretch_of(std::span<const Piece> pieces, uint64_t begin, uint64_t end) {
  std::vector<Piece> stretch;
  uint64_t row = 0;
  for (const Piece& piece : pieces) {
    if (row >= end) break;
    const uint64_t next = row + piece.part_end - piece.part_begin;
    const uint64_t first = std::max(begin, row), last = std::min(end, next);
    if (first < last) {
      stretch.push_back({piece.index, static_cast<uint32_t>(piece.part_begin + (first - row)),
                         static_cast<uint32_t>(piece.part_begin + (last - row))});
    }
    row = next;
  }
  return stretch;
}

// Ranks [first_rank, end_rank) visit the same units.
struct Group {
  uint64_t first_rank = 0;
  uint64_t end_rank = 0;
  bool workers_share_units = false;  // and so do the workers of each
};

Group group_of(uint64_t rank, uint64_t units, const EpochOptions& options) {
  const uint64_t world = options.shape.world_size, workers = options.shape.num_workers;
  Group group{rank, rank + 1, false};
  if (!options.shuffle || units == 0) return group;
  if (units / world < kLeastUnitsPerRank) {
    const uint64_t wanted = std::min(world, (kLeastUnitsPerRank * world + units - 1) / units);
    const uint64_t groups = std::max<uint64_t>(1, world / wanted);
    uint64_t index = rank * groups / world;
    while (even_boundary(world, groups, index) > rank) --index;
    while (even_boundary(world, groups, index + 1) <= rank) ++index;
    group.first_rank = even_boundary(world, groups, index);
    group.end_rank = even_boundary(world, groups, index + 1);
  }
  const uint64_t units_of_rank = units * (group.end_rank - group.first_rank) / world;
  group.workers_share_units = workers > 1 && units_of_rank / workers < kLeastUnitsPerWorker;
  return group;
}

// Who keeps a part of every unit of the group: ranks, or workers where those share units. In the
// order of the stream.
std::vector<Share> takers_of(const Group& group, uint64_t rows, EpochOptions options) {
  if (!group.workers_share_units) options.shape.num_workers = 1;
  std::vector<Share> takers;
  for (uint64_t rank = group.first_rank; rank < group.end_rank; ++rank) {
    for (uint32_t worker = 0; worker < options.shape.num_workers; ++worker) {
      takers.push_back(share_of(rows, options, static_cast<uint32_t>(rank), worker));
    }
  }
  return takers;
}

// The part of every piece that takers[own] keeps.
std::vector<Piece> dealt(std::span<const Piece> pieces, std::span<const Share> takers, size_t own) {
  // Rows that nobody takes (drop_last) are dealt, too.
  std::vector<uint64_t> quotas;
  size_t own_quota = 0;
  uint64_t position = takers.front().begin;
  for (size_t i = 0; i < takers.size(); ++i) {
    if (takers[i].begin > position) quotas.push_back(takers[i].begin - position);
    if (i == own) own_quota = quotas.size();
    quotas.push_back(takers[i].end - takers[i].begin);
    position = takers[i].end;
  }
  Apportion apportion(quotas);
  std::vector<Piece> kept;
  for (const Piece& piece : pieces) {
    const auto counts = apportion.deal(piece.part_end - piece.part_begin);
    uint64_t part_begin = piece.part_begin;
    for (size_t i = 0; i < own_quota; ++i) part_begin += counts[i];
    if (counts[own_quota] == 0) continue;
    kept.push_back({piece.index, static_cast<uint32_t>(part_begin),
                    static_cast<uint32_t>(part_begin + counts[own_quota])});
  }
  return kept;
}

// kPad: some visit keeps one row more, which another share has too or which comes twice here. No
// unit is read for it unless the share is otherwise empty.
void repeat_row(std::span<const UnitRows> units, const EpochOptions& options,
                std::vector<Visit>& visits) {
  const Shape& shape = options.shape;
  RandomStream random(hash_combine(random_key(options.seed, options.epoch, Purpose::kPadding),
                                   uint64_t{shape.rank} * shape.num_workers + shape.worker));
  if (visits.empty()) {
    const UnitRows& unit = options.shuffle ? units[random.below(units.size())] : units.back();
    const auto row =
        options.shuffle ? static_cast<uint32_t>(random.below(unit.row_count)) : unit.row_count - 1;
    visits.push_back(visit_part(unit, row, row + 1));
    visits.back().repeats_row = true;
    return;
  }
  Visit& visit = options.shuffle ? visits[random.below(visits.size())] : visits.back();
  ++visit.part_end;
  visit.repeats_row = true;
  visit.packed_bytes += visit.packed_bytes / (visit.row_count() - 1);
}

}  // namespace

std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options) {
  std::vector<double> parts;
  for (uint64_t first = 0; first < options.shape.world_size;) {
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
  const Shape& shape = options.shape;
  const Group group = group_of(shape.rank, units.size(), options);
  const auto takers = takers_of(group, rows, options);
  const uint64_t rank = shape.rank - group.first_rank;
  const auto own = static_cast<size_t>(
      group.workers_share_units ? rank * shape.num_workers + shape.worker : rank);
  auto pieces = stretch_of(whole_units(units, order), takers.front().begin, takers.back().end);
  if (takers.size() > 1) pieces = dealt(pieces, takers, own);
  const Share share = share_of(rows, options, shape.rank, shape.worker);
  const uint64_t begin = takers[own].begin;
  std::vector<Visit> visits;
  for (const Piece& piece : stretch_of(pieces, share.begin - begin, share.end - begin)) {
    visits.push_back(visit_part(units[piece.index], piece.part_begin, piece.part_end));
  }
  if (share.repeats_row) repeat_row(units, options, visits);
  return visits;
}

}  // namespace penstock::plan
