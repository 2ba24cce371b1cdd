#include "plan/order/global_order.h"

#include "plan/cut/rank_cut.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

constexpr uint64_t kVersion = 0x676c6f62616c01;  // change it with anything that changes an order

uint64_t fingerprint_of(uint64_t rows, const EpochOptions& options) {
  uint64_t hash = kVersion;
  for (const uint64_t value :
       {rows, options.seed, options.epoch, uint64_t{options.shard.world_size},
        uint64_t{options.shard.num_workers}, static_cast<uint64_t>(options.uneven),
        uint64_t{options.batch_size}, uint64_t{options.drop_last}, uint64_t{options.min_batch}}) {
    hash = hash_combine(hash, value);
  }
  return hash;
}

}  // namespace

GlobalOrder::GlobalOrder(uint64_t rows, const EpochOptions& options) {
  check_options(options);
  const Shard& shard = options.shard;
  const Share share = share_of(rows, options, shard.rank, shard.worker);
  order_ = RowPermutation(random_key(options.seed, options.epoch, Purpose::kGlobalOrder), rows);
  begin_ = share.begin;
  own_rows_ = share.end - share.begin;
  if (share.repeats_row) {
    // Any row, so that all are repeated equally often.
    RandomStream random(hash_combine(random_key(options.seed, options.epoch, Purpose::kPadding),
                                     uint64_t{shard.rank} * shard.num_workers + shard.worker));
    repeated_slot_ = own_rows_;
    repeated_position_ = random.below(rows);
  }
  batches_ = {share.row_count(), share.batches, options.batch_size,
              options.uneven == UnevenRows::kExact};
  fingerprint_ = fingerprint_of(rows, options);
}

}  // namespace penstock::plan
