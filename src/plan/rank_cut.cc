#include "plan/rank_cut.h"

#include <penstock/error.h>

#include <algorithm>
#include <string>

#include "plan/apportion.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

// [0, rows) in `parts` pieces, the first ones longer by one where it does not divide.
uint64_t even_boundary(uint64_t rows, uint64_t parts, uint64_t index) {
  return rows / parts * index + std::min(index, rows % parts);
}

// Where batch `index` of `batches` begins when `rows` are cut in sizes that differ by one at most.
uint64_t exact_boundary(uint64_t rows, uint64_t batches, uint64_t index) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(rows) * index / batches);
}

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

// Rows [begin, end) of the stream.
std::vector<Piece> pieces_of(std::span<const UnitRows> units, std::span<const uint32_t> order,
                             uint64_t begin, uint64_t end) {
  std::vector<Piece> pieces;
  uint64_t row = 0;
  for (const uint32_t index : order) {
    if (row >= end) break;
    const uint64_t next = row + units[index].row_count;
    const uint64_t first = std::max(begin, row), last = std::min(end, next);
    if (first < last) {
      pieces.push_back(
          {index, static_cast<uint32_t>(first - row), static_cast<uint32_t>(last - row)});
    }
    row = next;
  }
  return pieces;
}

struct Group {
  uint64_t first_share = 0;
  uint64_t end_share = 0;
};

// Shares are numbered rank-major: rank * num_workers + worker.
Group group_of(uint64_t share, uint64_t shares, uint64_t units) {
  if (units == 0 || units / shares >= kLeastUnitsPerShare) return {share, share + 1};
  const uint64_t wanted = std::min(shares, (kLeastUnitsPerShare * shares + units - 1) / units);
  const uint64_t groups = std::max<uint64_t>(1, shares / wanted);
  uint64_t group = share * groups / shares;
  while (even_boundary(shares, groups, group) > share) --group;
  while (even_boundary(shares, groups, group + 1) <= share) ++group;
  return {even_boundary(shares, groups, group), even_boundary(shares, groups, group + 1)};
}

std::vector<Visit> shared_visits(std::span<const UnitRows> units, std::span<const uint32_t> order,
                                 uint64_t rows, const EpochOptions& options, const Group& group,
                                 uint64_t own_share) {
  // Members in stream order, with the rows that nobody takes (drop_last) as takers of their own.
  std::vector<uint64_t> quotas;
  size_t own = 0;
  uint64_t begin = 0, position = 0;
  for (uint64_t number = group.first_share; number < group.end_share; ++number) {
    const uint32_t workers = options.shape.num_workers;
    const Share share = share_of(rows, options, static_cast<uint32_t>(number / workers),
                                 static_cast<uint32_t>(number % workers));
    if (number == group.first_share) begin = position = share.begin;
    if (share.begin > position) quotas.push_back(share.begin - position);
    if (number == own_share) own = quotas.size();
    quotas.push_back(share.end - share.begin);
    position = share.end;
  }
  Apportion apportion(quotas);
  std::vector<Visit> visits;
  for (const Piece& piece : pieces_of(units, order, begin, position)) {
    const auto counts = apportion.deal(piece.part_end - piece.part_begin);
    uint64_t part_begin = piece.part_begin;
    for (size_t i = 0; i < own; ++i) part_begin += counts[i];
    if (counts[own] == 0) continue;
    visits.push_back(visit_part(units[piece.index], static_cast<uint32_t>(part_begin),
                                static_cast<uint32_t>(part_begin + counts[own])));
  }
  return visits;
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

void check_options(const EpochOptions& options) {
  const Shape& shape = options.shape;
  if (shape.world_size == 0 || shape.rank >= shape.world_size) {
    throw InvalidArgument("rank must be below world_size: rank " + std::to_string(shape.rank) +
                          ", world_size " + std::to_string(shape.world_size));
  }
  if (shape.num_workers == 0 || shape.worker >= shape.num_workers) {
    throw InvalidArgument("worker must be below num_workers: worker " +
                          std::to_string(shape.worker) + ", num_workers " +
                          std::to_string(shape.num_workers));
  }
  if (options.batch_size == 0) throw InvalidArgument("batch_size must be positive: 0");
  if (options.min_batch == 0 || options.min_batch > options.batch_size) {
    throw InvalidArgument("min_batch must be from 1 to batch_size: min_batch " +
                          std::to_string(options.min_batch) + ", batch_size " +
                          std::to_string(options.batch_size));
  }
}

uint64_t exact_batches(uint64_t rows, const EpochOptions& options) {
  const uint64_t short_quota = rows / options.shape.world_size;
  const uint64_t long_quota = short_quota + (rows % options.shape.world_size != 0 ? 1 : 0);
  const uint64_t batches =
      long_quota / options.batch_size + (long_quota % options.batch_size != 0 ? 1 : 0);
  return short_quota == 0 ? batches : std::min(batches, short_quota);
}

uint64_t most_batch_rows(const EpochOptions& options) {
  const bool joins_rows =
      options.uneven == Uneven::kExact && options.batch_size == 1 && options.shape.world_size > 1;
  return uint64_t{options.batch_size} + options.min_batch - 1 + (joins_rows ? 1 : 0);
}

Share share_of(uint64_t rows, const EpochOptions& options, uint32_t rank, uint32_t worker) {
  const uint64_t world = options.shape.world_size, workers = options.shape.num_workers;
  const uint64_t batch = options.batch_size;
  const uint64_t short_quota = rows / world;
  const uint64_t long_quota = short_quota + (rows % world != 0 ? 1 : 0);

  uint64_t rank_begin = even_boundary(rows, world, rank);
  uint64_t own = even_boundary(rows, world, rank + 1) - rank_begin;
  uint64_t quota = own;  // with the repeated row
  if (options.uneven == Uneven::kDrop) {
    rank_begin = short_quota * rank;
    own = quota = short_quota;
  } else if (options.uneven == Uneven::kPad && rows > 0) {
    quota = long_quota;
  }
  const bool exact = options.uneven == Uneven::kExact;
  const bool cut_short = options.drop_last && !exact;
  uint64_t batches = exact ? exact_batches(rows, options) : quota / batch;
  if (!cut_short && !exact && quota % batch >= options.min_batch) ++batches;

  const uint64_t first = even_boundary(batches, workers, worker);
  const uint64_t last = even_boundary(batches, workers, worker + 1);
  const auto boundary = [&](uint64_t index) {
    if (batches == 0) return uint64_t{0};
    if (exact) return exact_boundary(quota, batches, index);
    return index == batches && !cut_short ? quota : std::min(index * batch, quota);
  };
  Share share;
  share.batches = last - first;
  share.begin = rank_begin + std::min(boundary(first), own);
  share.end = rank_begin + std::min(boundary(last), own);
  share.repeats_row = boundary(last) > own && last > first;
  return share;
}

std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options) {
  const uint32_t workers = options.shape.num_workers;
  const uint64_t shares = uint64_t{options.shape.world_size} * workers;
  std::vector<double> parts;
  for (uint64_t first = 0; first < shares;) {
    const Group group = options.shuffle ? group_of(first, shares, units) : Group{first, first + 1};
    std::vector<uint64_t> quotas;
    uint64_t total = 0;
    for (uint64_t share = group.first_share; share < group.end_share; ++share) {
      quotas.push_back(share_of(rows, options, static_cast<uint32_t>(share / workers),
                                static_cast<uint32_t>(share % workers))
                           .row_count());
      total += quotas.back();
    }
    for (const uint64_t quota : quotas) {
      if (quota == 0) continue;
      parts.push_back(quotas.size() == 1 ? 1.0
                                         : static_cast<double>(quota) / static_cast<double>(total));
    }
    first = group.end_share;
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
  const Share share = share_of(rows, options, shape.rank, shape.worker);
  const uint64_t own = uint64_t{shape.rank} * shape.num_workers + shape.worker;
  const uint64_t shares = uint64_t{shape.world_size} * shape.num_workers;
  const Group group = options.shuffle ? group_of(own, shares, units.size()) : Group{own, own + 1};

  std::vector<Visit> visits;
  if (group.end_share - group.first_share > 1) {
    visits = shared_visits(units, order, rows, options, group, own);
  } else {
    for (const Piece& piece : pieces_of(units, order, share.begin, share.end)) {
      visits.push_back(visit_part(units[piece.index], piece.part_begin, piece.part_end));
    }
  }
  if (share.repeats_row) repeat_row(units, options, visits);
  return visits;
}

}  // namespace penstock::plan
