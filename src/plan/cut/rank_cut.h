#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cut/share.h"
#include "plan/epoch_plan.h"

// Divides an epoch among ranks and workers.
//
// The ordered units are one stream of rows. Each rank takes an equal stretch of it, and each worker
// takes a stretch of whole batches of its rank's. A unit that a boundary divides is visited by both
// sides. Each side keeps rows that are neighbours in the store, so that it reads few tiles of the
// other side. If the store has few units, it keeps rows drawn from the whole unit instead.
//
// If a rank's stretch would hold fewer than kLeastUnitsPerRank units, neighbouring ranks form a
// group. Each rank visits all units of the group's stretch and keeps its part of every unit, in
// proportion and with exact totals. The kept rows are its stream, and its workers take stretches of
// that.
//
// A worker also reads parts of its neighbours' units. Therefore only as many workers have rows as
// get kLeastUnitsPerWorker units each: the rank's *active workers*. The other workers have none.

namespace penstock::plan {

inline constexpr uint64_t kLeastUnitsPerRank = 64;
inline constexpr uint64_t kLeastUnitsPerWorker = 8;
inline constexpr uint64_t kLeastUnitsCutByRows = 16;

/// Whether one process reads the epoch, without workers. It divides its first visits
/// (first_visits.h). Ranks and workers do not, since each of them would pay for its parts.
bool is_alone(const EpochOptions& options);

/// Whether waiting for all rows takes little longer than for the first batches.
bool fits_at_once(uint64_t rows, const EpochOptions& options);

/// True if the parts of a unit are stretches of its rows as stored. Otherwise they are stretches of
/// a permutation: then every share has cells from everywhere, even in a store of one unit, but
/// reads all of it. Nobody shares units with a process alone.
bool parts_are_stored_rows(std::span<const UnitRows> units, const EpochOptions& options);

/// For all shares, without repeats: the part of every unit that a share keeps, except at its two
/// ends. 1 if shares are stretches of whole units.
std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options);

/// Number of workers of a rank that may have rows, the same on each rank and at least 1. If it is
/// fewer than num_workers, the workers from there on have none. All workers count if chunks or a
/// global order are read, because each of them then reads all over the store.
uint32_t active_workers_of(size_t units, const EpochOptions& options);

/// Returns the visits of the share that options.shard names, where num_workers is the number of
/// active workers. `order` lists `units` in the order of visits.
std::vector<Visit> cut_visits(std::span<const UnitRows> units, std::span<const uint32_t> order,
                              const EpochOptions& options);

}  // namespace penstock::plan
