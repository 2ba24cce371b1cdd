#pragma once

#include <cstdint>

#include "plan/epoch_plan.h"

// The rows and batches of each worker of each rank: its *share*, a stretch of the rows in the order
// of the epoch. Every rank has equally many batches, whatever the number of its workers.

namespace penstock::plan {

/// Where piece `index` starts when `rows` are divided into `parts` pieces. If they do not divide
/// evenly, the first pieces are longer by one.
uint64_t even_boundary(uint64_t rows, uint64_t parts, uint64_t index);

/// One share as rows of the stream.
struct Share {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool repeats_row = false;  ///< kPad: one more row, any that was visited
  uint64_t batches = 0;
  uint64_t row_count() const noexcept { return end - begin + (repeats_row ? 1 : 0); }
};

/// Throws InvalidArgument for an invalid shard or batch size.
void check_options(const EpochOptions& options);

/// The share of a (rank, worker) when the stream has `rows` rows. Empty for workers from
/// num_workers on.
Share share_of(uint64_t rows, const EpochOptions& options, uint32_t rank, uint32_t worker);

/// Number of batches of every rank in an epoch of kExact. If possible, batches have at most
/// batch_size rows and none is empty. With batch_size 1 and a remainder, a longer rank has one
/// batch of two rows. With fewer rows than ranks, some ranks have an empty batch.
uint64_t exact_batches(uint64_t rows, const EpochOptions& options);

/// The most rows that a batch may have.
uint64_t most_batch_rows(const EpochOptions& options);

}  // namespace penstock::plan
