#include "plan/cut/share.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"

namespace penstock::plan {
namespace {

// Where batch `index` of `batches` begins when `rows` are cut in sizes that differ by one at most.
uint64_t exact_boundary(uint64_t rows, uint64_t batches, uint64_t index) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(rows) * index / batches);
}

}  // namespace

uint64_t even_boundary(uint64_t rows, uint64_t parts, uint64_t index) {
  return rows / parts * index + std::min(index, rows % parts);
}

void check_options(const EpochOptions& options) {
  const Shard& shard = options.shard;
  if (shard.world_size == 0 || shard.rank >= shard.world_size) {
    throw InvalidArgument(concat("rank must be below world_size: rank ", shard.rank,
                                 ", world_size ", shard.world_size));
  }
  if (shard.num_workers == 0 || shard.worker >= shard.num_workers) {
    throw InvalidArgument(concat("worker must be below num_workers: worker ", shard.worker,
                                 ", num_workers ", shard.num_workers));
  }
  if (options.batch_size == 0) throw InvalidArgument("batch_size must be positive: 0");
  if (options.min_batch == 0 || options.min_batch > options.batch_size) {
    throw InvalidArgument(concat("min_batch must be from 1 to batch_size: min_batch ",
                                 options.min_batch, ", batch_size ", options.batch_size));
  }
}

uint64_t exact_batches(uint64_t rows, const EpochOptions& options) {
  const uint64_t short_quota = rows / options.shard.world_size;
  const uint64_t long_quota = short_quota + (rows % options.shard.world_size != 0 ? 1 : 0);
  const uint64_t batches =
      long_quota / options.batch_size + (long_quota % options.batch_size != 0 ? 1 : 0);
  return short_quota == 0 ? batches : std::min(batches, short_quota);
}

uint64_t most_batch_rows(const EpochOptions& options) {
  const bool joins_rows = options.uneven == UnevenRows::kExact && options.batch_size == 1 &&
                          options.shard.world_size > 1;
  return uint64_t{options.batch_size} + options.min_batch - 1 + (joins_rows ? 1 : 0);
}

Share share_of(uint64_t rows, const EpochOptions& options, uint32_t rank, uint32_t worker) {
  const uint64_t world = options.shard.world_size, workers = options.shard.num_workers;
  const uint64_t batch = options.batch_size;
  const uint64_t short_quota = rows / world;
  const uint64_t long_quota = short_quota + (rows % world != 0 ? 1 : 0);

  uint64_t rank_begin = even_boundary(rows, world, rank);
  uint64_t own = even_boundary(rows, world, rank + 1) - rank_begin;
  uint64_t quota = own;  // with the repeated row
  if (options.uneven == UnevenRows::kDrop) {
    rank_begin = short_quota * rank;
    own = quota = short_quota;
  } else if (options.uneven == UnevenRows::kPad && rows > 0) {
    quota = long_quota;
  }
  const bool exact = options.uneven == UnevenRows::kExact;
  const bool cut_short = options.drop_last && !exact;
  uint64_t batches = exact ? exact_batches(rows, options) : quota / batch;
  if (!cut_short && !exact && quota % batch >= options.min_batch) ++batches;

  const uint64_t first = even_boundary(batches, workers, std::min<uint64_t>(worker, workers));
  const uint64_t last = even_boundary(batches, workers, std::min(uint64_t{worker} + 1, workers));
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

}  // namespace penstock::plan
