#pragma once

#include <cstdint>

#include "plan/epoch_plan.h"

// How many rows and batches each worker of each rank gets: its *share*, a stretch of the rows in
// the order of the epoch. Every rank has equally many batches, whatever the number of its workers.

namespace penstock::plan {

/// Where piece `index` begins when `rows` are cut in `parts` pieces, the first ones longer by one
/// where it does not divide.
uint64_t even_boundary(uint64_t rows, uint64_t parts, uint64_t index);

/// One share as rows of the stream.
struct Share {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool repeats_row = false;  ///< kPad: one row more, any that was visited
  uint64_t batches = 0;
  uint64_t row_count() const noexcept { return end - begin + (repeats_row ? 1 : 0); }
};

/// Throws InvalidArgument for a shard or batch size that makes no sense.
void check_options(const EpochOptions& options);

/// The share of a (rank, worker) when the stream has `rows` rows; nothing for a worker from
/// num_workers on.
Share share_of(uint64_t rows, const EpochOptions& options, uint32_t rank, uint32_t worker);

/// Batches of every rank in an epoch of kExact: of at most batch_size rows, and none empty, where
/// that can be. With batch_size 1 and a remainder it cannot, so that a long rank has one of two
/// rows; fewer rows than ranks leave some of them an empty batch.
uint64_t exact_batches(uint64_t rows, const EpochOptions& options);

/// The most rows that a batch may have.
uint64_t most_batch_rows(const EpochOptions& options);

}  // namespace penstock::plan
