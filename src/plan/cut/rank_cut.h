#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cut/share.h"
#include "plan/epoch_plan.h"

// The cut of an epoch among ranks and workers.
//
// The ordered units are one stream of rows. Ranks take equal stretches of it, workers take
// stretches of whole batches of their rank's; a unit that a boundary divides is visited by both
// sides, each keeping rows that are neighbours in the store, so that it reads few of the others'
// tiles (of a store of few units, rows drawn from all of it). Where a rank's stretch would hold
// fewer than kLeastUnitsPerRank units, some neighbouring ranks form a group: each visits all units
// of the group's stretch and keeps its part of every one, in proportion and with exact totals. What
// it keeps is then its stream, and its workers take stretches of that. A worker reads parts of its
// neighbours' units, so that as many of them have rows as get kLeastUnitsPerWorker units each:
// those are the rank's *lanes*, the other workers have nothing.

namespace penstock::plan {

inline constexpr uint64_t kLeastUnitsPerRank = 64;
inline constexpr uint64_t kLeastUnitsPerWorker = 8;
inline constexpr uint64_t kLeastUnitsCutByRows = 16;

/// Whether the parts of a unit are stretches of its rows as they are stored. Else they are of a
/// permutation of them, so that also of a store of one unit everybody has cells from everywhere,
/// and reads all of it.
constexpr bool parts_are_stored_rows(uint64_t units) noexcept {
  return units >= kLeastUnitsCutByRows;
}

/// Which part of every unit a share keeps, but for those at its ends, for all shares that there
/// are, without repeats; 1 where shares are stretches of whole units.
std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options);

/// Workers of a rank that may have rows, the same number on each rank; where that is fewer than
/// num_workers, workers from there on have none. At least 1. All of them where chunks or a global
/// order are read, as everybody reads all over the store then.
uint32_t lanes_of(size_t units, const EpochOptions& options);

/// The visits of the share that options.shard names, num_workers being the lanes. `order` lists
/// `units` in the order of visits.
std::vector<Visit> cut_visits(std::span<const UnitRows> units, std::span<const uint32_t> order,
                              const EpochOptions& options);

}  // namespace penstock::plan
