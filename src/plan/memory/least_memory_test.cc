#include "plan/memory/least_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/epoch_plan.h"
#include "plan/testing/random_options.h"
#include "plan/testing/random_units.h"

namespace penstock::plan {
namespace {

using testing::random_options;
using testing::random_units;
using testing::Rng;

// For any order, rank and worker: a run that has started is not refused later.
TEST(LeastMemory, IsEnoughForEveryOrderAndShare) {
  const TestSeed seed(3);
  Rng rng(seed);
  for (int round = 0; round < 4000; ++round) {
    const auto most_rows = static_cast<uint32_t>(1 + rng() % (rng() % 2 == 0 ? 6 : 200));
    const auto units = random_units(rng, 1 + rng() % 90, most_rows);
    const EpochOptions options = random_options(rng);
    const auto ahead = static_cast<uint32_t>(rng() % 4);
    const uint64_t page = uint64_t{16} << (rng() % 6);
    const uint64_t least = least_row_bytes(units, options, ahead, page);
    for (int order = 0; order < 6; ++order) {
      EpochOptions given = options;
      given.seed = rng();
      given.epoch = rng() % 9;
      given.shard.rank = static_cast<uint32_t>(rng() % options.shard.world_size);
      given.shard.worker = static_cast<uint32_t>(rng() % options.shard.num_workers);
      uint64_t needed = 0;
      EpochPlan::choose_spread(units, given, least, ahead, page, &needed);
      ASSERT_LE(needed, least) << "round " << round << ", order " << order;
    }
  }
}

}  // namespace
}  // namespace penstock::plan
