#pragma once

#include <penstock/loader.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/cut/batch_cut.h"
#include "plan/cut/bucket_layout.h"

// The order of one epoch, known before anything is read (design, section 5, "Shuffle").
//
// An epoch visits fetch units in a random, stratified order. Visit i spreads its rows evenly over
// buckets i … i+K-1. Bucket j is complete once visits 0 … j are read; then its rows leave together,
// permuted. Batches are cut from the sequence of buckets. Every row therefore has a *slot*: its
// position in that sequence, computed from (seed, epoch, visit, row) alone.
//
//   EpochPlan plan(units, options, K);
//   for i in 0 … plan.visit_count():   read plan.visit(i).unit; plan.place(i, placements)
//   bucket j holds the slots [plan.bucket_begin(j), plan.bucket_begin(j + 1))
//   batch b holds the slots  [plan.batch_begin(b), plan.batch_begin(b + 1))
//
// Pure: no I/O, no clocks, generators of our own (counter-based), so that every machine and every
// number of threads computes the same plan. The visits and the cut among ranks and workers do not
// depend on K.

namespace penstock::plan {

/// A unit under the selection: the selected rows (by position) that it holds.
struct UnitRows {
  uint32_t unit = 0;            ///< index into the source's units
  uint64_t first_position = 0;  ///< position in the selection of its first selected row
  uint32_t row_count = 0;       ///< selected rows, or draws from them (RowSampler); never 0
  uint64_t packed_bytes = 0;    ///< estimate of the memory of those rows when packed
  uint32_t drawn_from = 0;      ///< the selected rows where row_count are draws from them, else 0
  uint32_t repeat = 0;          ///< which of the unit's entries, where it is drawn from often

  uint32_t selected_rows() const noexcept { return drawn_from != 0 ? drawn_from : row_count; }
};

struct Shard {
  uint32_t world_size = 1;
  uint32_t rank = 0;
  uint32_t num_workers = 1;  ///< loaders that share a rank's quota; 1 without DataLoader workers
  uint32_t worker = 0;
};

struct EpochOptions {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  bool shuffle = true;
  Shard shard;
  UnevenRows uneven = UnevenRows::kDrop;
  uint32_t batch_size = 128;
  bool drop_last = false;
  /// A last batch with fewer rows joins the one before it, or is left out when it is the only one.
  uint32_t min_batch = 1;
  /// Rows read ahead before the first bucket leaves, so that the first batch is mixed.
  uint64_t prefill_rows = 16384;
  /// Not 0: shuffled chunks of so many rows (chunk_visits.h) instead of the scatter shuffle.
  uint32_t chunk_rows = 0;
  uint32_t chunks_per_block = 0;
  /// The order is one permutation of all rows (global_order.h), however rows are read.
  bool global_order = false;
  /// For a global order that is read by units: rows whose units are read together
  /// (global_visits.h).
  uint64_t block_rows = 0;
};

/// One reading of a unit: the rows of it that this rank and worker keeps.
struct Visit {
  uint32_t unit = 0;
  uint64_t first_position = 0;
  uint32_t unit_rows = 0;  ///< selected rows of the whole unit, or draws from them
  /// Kept part of the unit's rows, or draws by row, as stored or permuted (parts_are_stored_rows).
  /// If it reaches past unit_rows, it wraps around to the first row.
  uint32_t part_begin = 0;
  uint32_t part_end = 0;
  uint64_t packed_bytes = 0;  ///< of the kept part
  /// For kPad: the part's last row is replaced by repeated_row.
  bool repeats_row = false;
  uint32_t repeated_row = 0;  ///< in the order that the part is of
  uint32_t selected_rows = 0;
  uint32_t repeat = 0;
  uint32_t row_count() const { return part_end - part_begin; }
  uint32_t own_rows() const { return row_count() - (repeats_row ? 1 : 0); }
};

/// Where one row of a visit goes.
struct Placement {
  uint32_t row = 0;   ///< index among the unit's selected rows, ascending joinid
  uint64_t slot = 0;  ///< position in the sequence that leaves
};

/// Peak memory of a plan with a given K: rows that are read and have not left, including the bucket
/// that is leaving.
struct Occupancy {
  uint64_t peak_bytes = 0;  ///< a visit's bytes counted in equal parts for its K buckets, and pages
  uint64_t peak_rows = 0;   ///< exact
  uint64_t table_rows = 0;  ///< at most, of all buckets that have rows at a time
};

class GlobalOrder;
class RowSampler;
struct ChunkVisits;

class EpochPlan {
 public:
  /// `spread` is K, clamped to [1, visits]; with shuffle off it is 1. K = visits makes one bucket
  /// of all rows. Throws InvalidArgument for an invalid shard. With a sampler, which must outlive
  /// the plan, `units` are the sampler's.
  EpochPlan(std::span<const UnitRows> units, const EpochOptions& options, uint32_t spread,
            const RowSampler* sampler = nullptr);

  /// Returns a K whose occupancy stays within `budget_bytes` while that of K + 1 does not. It
  /// counts `units_ahead` units decoded before they are due and `page_bytes` of waste for every
  /// open bucket. Returns 0 if not even K = 1 fits (`least_bytes` is then the need), and
  /// visit_count() if everything fits: one bucket, an exactly uniform shuffle.
  static uint32_t choose_spread(std::span<const UnitRows> units, const EpochOptions& options,
                                uint64_t budget_bytes, uint32_t units_ahead, uint64_t page_bytes,
                                uint64_t* least_bytes = nullptr);

  uint32_t spread() const noexcept { return spread_; }
  size_t visit_count() const noexcept { return visits_.size(); }
  const Visit& visit(size_t index) const { return visits_[index]; }
  /// Whether a visit keeps only some of its unit's rows, neighbours as they are stored.
  bool keeps_stored_part(size_t index) const {
    return stored_parts_ && chunks_ == nullptr &&
           visits_[index].own_rows() < visits_[index].unit_rows;
  }

  /// Placements of a visit's rows, one for each row kept (a padded row may come twice, a drawn one
  /// as often as it was drawn), ascending by row, then slot. Replaces what is in `out`. Safe from
  /// many threads.
  void place(size_t visit_index, std::vector<Placement>& out) const;

  size_t bucket_count() const noexcept { return layout_.bucket_count(); }
  uint64_t bucket_begin(size_t bucket) const { return layout_.bucket_begin(bucket); }
  /// The first visit with rows in this bucket or a later one.
  size_t earliest_visit_of_bucket(size_t bucket) const { return layout_.earliest_visit(bucket); }
  /// The last visit that must be read before a bucket may leave.
  size_t last_visit_of_bucket(size_t bucket) const { return layout_.last_visit(bucket); }
  /// The last visit that may be read while the bucket still has rows, not counting units_ahead: the
  /// last one needed by the batches that start in it, or the one after its own last visit if that
  /// is later.
  size_t visit_before_release(size_t bucket) const {
    return layout_.last_visit(bucket) + std::max(reach_[bucket], 1U);
  }

  uint64_t row_count() const noexcept;    ///< rows that leave, for this rank and worker
  uint64_t batch_count() const noexcept;  ///< len()
  /// Batches are full except the last one. With kExact their sizes differ by at most one, and one
  /// batch may be empty if there are fewer rows than ranks.
  uint64_t batch_begin(uint64_t batch) const;
  /// The bucket that a slot is in; the slot must be less than row_count().
  size_t bucket_of(uint64_t slot) const;
  /// Slot of the row that kPad repeats, if this share has one.
  std::optional<uint64_t> repeated_slot() const noexcept { return repeated_slot_; }
  /// The first visit with rows in this batch or a later one; visit_count() if there is none.
  size_t earliest_visit(uint64_t batch) const;

  Occupancy occupancy(uint32_t units_ahead, uint64_t page_bytes) const;

  /// A hash of everything that the global plan depends on, but not of rank or worker. Ranks compare
  /// it.
  uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// Workers of each rank that may have rows. With few units it is fewer than num_workers
  /// (rank_cut.h), and workers from there on have none.
  uint32_t active_workers() const noexcept { return options_.shard.num_workers; }

 private:
  /// Calls `row(index, slot)` for each row of a visit's part, in any order.
  template <typename Row>
  void for_each_slot(size_t visit_index, Row&& row) const;
  std::optional<uint64_t> find_repeated_slot() const;
  void place_global(size_t visit_index, std::vector<Placement>& out) const;
  /// The rows that the visit keeps, in the random order in which they are dealt to buckets.
  std::vector<uint32_t> dealt_rows(size_t visit_index) const;
  std::vector<uint32_t> chunk_rows(size_t visit_index) const;

  EpochOptions options_;
  const RowSampler* sampler_ = nullptr;
  std::shared_ptr<const GlobalOrder> global_;  ///< of a global order, else null
  std::shared_ptr<const ChunkVisits> chunks_;  ///< where blocks are read as a whole, else null
  uint32_t spread_ = 1;
  bool stored_parts_ = true;  ///< visits keep rows as they are stored, not permuted
  std::vector<Visit> visits_;
  BucketLayout layout_;
  BatchCut batches_;
  std::vector<uint32_t> reach_;  ///< by bucket, batch_reach()
  std::optional<uint64_t> repeated_slot_;
  uint64_t fingerprint_ = 0;
};

}  // namespace penstock::plan
