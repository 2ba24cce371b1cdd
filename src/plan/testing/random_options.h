#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/epoch_plan.h"
#include "plan/testing/random_units.h"

// Random world sizes, batch sizes and ends of an epoch, for the tests of this folder.

namespace penstock::plan::testing {

inline EpochOptions random_options(Rng& rng) {
  EpochOptions options;
  options.seed = rng();
  options.epoch = rng() % 5;
  options.shuffle = rng() % 4 != 0;
  options.shard.world_size = static_cast<uint32_t>(1 + rng() % (rng() % 3 == 0 ? 9 : 3));
  options.shard.num_workers = static_cast<uint32_t>(1 + rng() % (rng() % 3 == 0 ? 5 : 2));
  options.uneven = static_cast<UnevenRows>(rng() % 3);
  options.batch_size = static_cast<uint32_t>(1 + rng() % (rng() % 2 == 0 ? 8 : 200));
  options.drop_last = rng() % 3 == 0;
  options.min_batch =
      rng() % 2 == 0 ? 1 : static_cast<uint32_t>(1 + rng() % std::min(options.batch_size, 9U));
  options.prefill_rows = rng() % 500;
  return options;
}

}  // namespace penstock::plan::testing
