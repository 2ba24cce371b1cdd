#pragma once

#include <cstdint>
#include <optional>

#include "plan/cut/batch_cut.h"
#include "plan/epoch_plan.h"
#include "plan/order/row_permutation.h"

// The order of an epoch that is shuffled as a whole: one uniform permutation of all selected rows,
// which is cut among ranks, workers and batches like the stream of any epoch (rank_cut.h).
//
//   GlobalOrder order(rows, options);
//   batch b has the slots [order.batch_begin(b), order.batch_begin(b + 1))
//   order.position(slot)     the row in that slot, by position in the selection
//
// The order depends on the number of rows and on options' seed, epoch, shard and batches alone, not
// on memory, units or how rows are read. Immutable, any threads.

namespace penstock::plan {

class GlobalOrder {
 public:
  /// Throws InvalidArgument for an invalid shard or batch size.
  GlobalOrder(uint64_t rows, const EpochOptions& options);

  uint64_t row_count() const noexcept { return batches_.rows; }  ///< of this rank and worker
  uint64_t batch_count() const noexcept { return batches_.batches; }
  const BatchCut& batches() const noexcept { return batches_; }
  uint64_t batch_begin(uint64_t batch) const noexcept { return batches_.begin(batch); }

  /// Position in the selection of the row in a slot below row_count().
  uint64_t position(uint64_t slot) const noexcept {
    return slot == repeated_slot_ ? repeated_position_ : order_.position(begin_ + slot);
  }
  /// Slot of a row of the selection; at or past row_count() if another share has it. Not the slot
  /// where kPad repeats the row.
  uint64_t slot(uint64_t position) const noexcept {
    const uint64_t slot = order_.slot(position) - begin_;  // may wrap round: past the end too
    return slot < own_rows_ ? slot : UINT64_MAX;
  }

  /// Slot of the row that kPad repeats, the last one, if this share has one.
  std::optional<uint64_t> repeated_slot() const noexcept {
    if (repeated_slot_ == UINT64_MAX) return std::nullopt;
    return repeated_slot_;
  }

  /// A hash of everything that the order of all ranks depends on.
  uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  RowPermutation order_;
  uint64_t begin_ = 0;     ///< start of this share in the permuted sequence
  uint64_t own_rows_ = 0;  ///< without the repeated one
  uint64_t repeated_slot_ = UINT64_MAX;
  uint64_t repeated_position_ = 0;
  BatchCut batches_;
  uint64_t fingerprint_ = 0;
};

}  // namespace penstock::plan
