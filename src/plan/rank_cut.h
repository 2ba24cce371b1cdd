#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"

// The cut of an epoch among ranks and workers.
//
// The ordered units are one stream of rows. Ranks take equal stretches of it, workers take
// stretches of whole batches of their rank's; a unit that a boundary divides is visited by both
// sides, each keeping a part of the unit's permuted rows. Where stretches would hold fewer than
// kLeastUnitsPerShare units, some neighbouring ones form a group: each member visits all units of
// the group's stretch and keeps its share of every one, in proportion and with exact totals.
//
// A *share* is what one worker of one rank gets.

namespace penstock::plan {

inline constexpr uint64_t kLeastUnitsPerShare = 64;

/// One share as rows of the stream.
struct Share {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool repeats_row = false;  ///< kPad: one row more, any that was visited
  uint64_t batches = 0;
  uint64_t row_count() const noexcept { return end - begin + (repeats_row ? 1 : 0); }
};

/// Throws InvalidArgument for a shape or batch size that makes no sense.
void check_options(const EpochOptions& options);

/// The share of a (rank, worker) when the stream has `rows` rows.
Share share_of(uint64_t rows, const EpochOptions& options, uint32_t rank, uint32_t worker);

/// Batches of every rank in an epoch of kExact: of at most batch_size rows, and none empty, where
/// that can be. With batch_size 1 and a remainder it cannot, so that a long rank has one of two
/// rows; fewer rows than ranks leave some of them an empty batch.
uint64_t exact_batches(uint64_t rows, const EpochOptions& options);

/// The most rows that a batch may have.
uint64_t most_batch_rows(const EpochOptions& options);

/// Which part of every unit a share keeps, for all shares that there are, without repeats; 1 where
/// shares are stretches of whole units.
std::vector<double> unit_parts(uint64_t rows, size_t units, const EpochOptions& options);

/// The visits of the share that options.shape names. `order` lists `units` in the order of visits.
std::vector<Visit> cut_visits(std::span<const UnitRows> units, std::span<const uint32_t> order,
                              const EpochOptions& options);

}  // namespace penstock::plan
