#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/cut/rank_cut.h"
#include "plan/epoch_plan.h"
#include "plan/testing/plan_sequence.h"
#include "plan/testing/random_options.h"
#include "plan/testing/random_units.h"

// Runs all ranks and workers and checks their rows: each row once, equal batches, the remainder.

namespace penstock::plan {
namespace {

using testing::random_options;
using testing::random_units;
using testing::Rng;
using testing::sequence_of;
using testing::total_rows;

struct World {
  std::vector<std::vector<uint64_t>> sequences;  ///< rank-major, then workers
  std::vector<uint64_t> rank_batches;
  std::vector<uint64_t> batch_sizes;
  std::vector<uint64_t> repeated;  ///< positions that plans mark as repeated
};

World play(const std::vector<UnitRows>& units, EpochOptions options, Rng& rng) {
  World world;
  uint64_t fingerprint = 0;
  for (uint32_t rank = 0; rank < options.shard.world_size; ++rank) {
    world.rank_batches.push_back(0);
    for (uint32_t worker = 0; worker < options.shard.num_workers; ++worker) {
      options.shard.rank = rank;
      options.shard.worker = worker;
      const EpochPlan plan(units, options, static_cast<uint32_t>(1 + rng() % 40));
      if (rank + worker == 0) fingerprint = plan.fingerprint();
      EXPECT_EQ(plan.fingerprint(), fingerprint);
      world.sequences.push_back(sequence_of(plan));
      if (const auto slot = plan.repeated_slot()) {
        world.repeated.push_back(world.sequences.back().at(*slot));
      }
      world.rank_batches.back() += plan.batch_count();
      for (uint64_t batch = 0; batch < plan.batch_count(); ++batch) {
        world.batch_sizes.push_back(plan.batch_begin(batch + 1) - plan.batch_begin(batch));
      }
    }
  }
  return world;
}

// Every promise of the cut, for one shard.
void check_world(const std::vector<UnitRows>& units, const EpochOptions& options, Rng& rng) {
  const uint64_t rows = total_rows(units);
  const uint64_t ranks = options.shard.world_size, batch = options.batch_size;
  const World world = play(units, options, rng);

  for (const uint64_t batches : world.rank_batches) EXPECT_EQ(batches, world.rank_batches[0]);
  std::map<uint64_t, uint64_t> times;
  uint64_t delivered = 0;
  for (const auto& sequence : world.sequences) {
    for (const uint64_t position : sequence) ++times[position];
    delivered += sequence.size();
  }
  if (!times.empty()) {
    EXPECT_LT(times.rbegin()->first, rows);
  }
  uint64_t repeats = 0;
  for (const auto& [position, count] : times) repeats += count - 1;

  if (options.uneven == UnevenRows::kExact) {
    EXPECT_EQ(delivered, rows);
    EXPECT_EQ(repeats, 0u);
    if (!world.batch_sizes.empty()) {
      const auto [least, most] =
          std::minmax_element(world.batch_sizes.begin(), world.batch_sizes.end());
      EXPECT_LE(*most - *least, 1u);
      EXPECT_LE(*most, most_batch_rows(options));
      const bool joins_rows = batch == 1 && rows % ranks != 0 && rows > ranks;
      EXPECT_LE(*most, batch + (joins_rows ? 1 : 0));
      if (rows >= ranks) {
        EXPECT_GE(*least, 1u);
      }
    }
    const uint64_t wanted = ((rows + ranks - 1) / ranks + batch - 1) / batch;
    EXPECT_EQ(world.rank_batches[0], rows < ranks ? wanted : std::min(wanted, rows / ranks));
    return;
  }
  const bool pad = options.uneven == UnevenRows::kPad;
  const uint64_t quota = pad ? (rows + ranks - 1) / ranks : rows / ranks;
  uint64_t kept = options.drop_last ? quota / batch * batch : quota;
  uint64_t batches = (kept + batch - 1) / batch;
  const bool joins = kept % batch != 0 && kept % batch < options.min_batch;
  if (joins) --batches;
  if (batches == 0) kept = 0;
  EXPECT_EQ(delivered, kept * ranks);
  EXPECT_EQ(world.rank_batches[0], batches);
  if (!pad) {
    EXPECT_EQ(repeats, 0u);
    EXPECT_TRUE(world.repeated.empty());
  } else {
    // Without the rows that are marked none comes twice.
    if (kept == quota) {
      EXPECT_EQ(world.repeated.size(), delivered - rows);
    }
    for (const uint64_t position : world.repeated) --times[position];
    EXPECT_TRUE(std::all_of(times.begin(), times.end(), [&](const auto& each) {
      return each.second == 1 || (kept != quota && each.second == 0);
    }));
    EXPECT_LE(repeats, quota * ranks - rows);
    if (kept == quota) {
      EXPECT_EQ(times.size(), rows);
    }
  }
  uint64_t other_batches = 0;
  for (const uint64_t size : world.batch_sizes) {
    EXPECT_LT(size, batch + options.min_batch);
    EXPECT_GE(size, options.min_batch);
    other_batches += size != batch ? 1 : 0;
  }
  EXPECT_EQ(other_batches, kept % batch == 0 ? 0 : ranks);
}

TEST(EpochPlanCut, EveryRowOnceForThousandsOfShapes) {
  const TestSeed seed(1);
  Rng rng(seed);
  for (int round = 0; round < 4000 && !::testing::Test::HasFailure(); ++round) {
    const size_t count = rng() % (round % 10 == 0 ? 300 : 12);
    const auto units = random_units(rng, count, static_cast<uint32_t>(1 + rng() % 60));
    const auto options = random_options(rng);
    SCOPED_TRACE("round " + std::to_string(round) + ", units " + std::to_string(count) + ", rows " +
                 std::to_string(total_rows(units)));
    check_world(units, options, rng);
  }
}

TEST(EpochPlanCut, EveryRowOnceForAllSmallShapes) {
  const TestSeed seed(2);
  Rng rng(seed);
  for (const uint64_t rows : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 40u, 41u}) {
    const uint64_t most = rows < 40 ? 4 : 2;  // rows of a unit: 20 units or more of 40
    for (uint32_t world = 1; world <= 4; ++world) {
      for (uint32_t workers = 1; workers <= 3; ++workers) {
        for (uint32_t batch = 1; batch <= 4; ++batch) {
          for (int variant = 0; variant < 12 && !HasFailure(); ++variant) {
            std::vector<UnitRows> units;
            for (uint64_t first = 0; first < rows;) {
              const auto count =
                  static_cast<uint32_t>(1 + rng() % std::min<uint64_t>(most, rows - first));
              units.push_back({static_cast<uint32_t>(units.size()), first, count, count * 7});
              first += count;
            }
            EpochOptions options;
            options.seed = rng();
            options.shard = {world, 0, workers, 0};
            options.batch_size = batch;
            options.uneven = static_cast<UnevenRows>(variant % 3);
            options.drop_last = variant / 3 % 2 != 0;
            options.shuffle = variant / 6 != 0;
            options.prefill_rows = rows / 2;
            options.min_batch = std::min(batch, static_cast<uint32_t>(1 + rng() % 2));
            SCOPED_TRACE(std::to_string(rows) + " rows, world " + std::to_string(world) +
                         ", workers " + std::to_string(workers) + ", batch " +
                         std::to_string(batch) + ", variant " + std::to_string(variant));
            check_world(units, options, rng);
          }
        }
      }
    }
  }
}

TEST(EpochPlanCut, DroppedAndRepeatedRowsDifferFromEpochToEpoch) {
  Rng rng(10);  // fixed: with others 7 ranks may divide the rows evenly
  const auto units = random_units(rng, 40, 100);
  const uint64_t rows = total_rows(units);
  ASSERT_NE(rows % 7, 0u);
  std::set<std::vector<uint64_t>> dropped, repeated;
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    EpochOptions options;
    options.epoch = epoch;
    options.shard.world_size = 7;
    for (const UnevenRows uneven : {UnevenRows::kDrop, UnevenRows::kPad}) {
      options.uneven = uneven;
      const World world = play(units, options, rng);
      std::vector<uint32_t> times(rows);
      for (const auto& sequence : world.sequences) {
        for (const uint64_t position : sequence) ++times[position];
      }
      std::vector<uint64_t> odd;
      for (uint64_t i = 0; i < rows; ++i) {
        if (times[i] != 1) odd.push_back(i);
      }
      (uneven == UnevenRows::kDrop ? dropped : repeated).insert(odd);
    }
  }
  EXPECT_EQ(dropped.size(), 10u);
  EXPECT_EQ(repeated.size(), 10u);
}

// Each as often as another, in the long run: where parts of units are stored rows and where not,
// with ranks that share units and with workers that do not.
TEST(EpochPlanCut, AnyRowMayBeLeftOutOrRepeated) {
  if (has_fewer_cases()) GTEST_SKIP() << "a statistic, which the release build checks";
  for (const uint32_t unit_count : {8u, 20u, 160u}) {
    for (const auto& [world, workers] : {std::pair{3u, 1u}, {7u, 1u}, {1u, 3u}}) {
      for (const UnevenRows uneven : {UnevenRows::kDrop, UnevenRows::kPad}) {
        if (world == 1 && uneven == UnevenRows::kPad) continue;  // nothing is repeated
        SCOPED_TRACE(std::to_string(unit_count) + " units, world " + std::to_string(world) +
                     ", workers " + std::to_string(workers));
        std::vector<UnitRows> units;
        const uint32_t own = 320 / unit_count;
        for (uint32_t i = 0; i < unit_count; ++i) {
          units.push_back({i, uint64_t{i} * own, own, 100});
        }
        std::vector<uint32_t> times(320);  // left out, or repeated
        for (uint64_t epoch = 0; epoch < 1500; ++epoch) {
          EpochOptions options;
          options.epoch = epoch;
          options.batch_size = 9;
          options.uneven = uneven;
          options.drop_last = uneven == UnevenRows::kDrop;
          std::vector<uint32_t> taken(320);
          for (uint32_t rank = 0; rank < world; ++rank) {
            for (uint32_t worker = 0; worker < workers; ++worker) {
              options.shard = {world, rank, workers, worker};
              const EpochPlan plan(units, options, 5);
              const auto sequence = sequence_of(plan);
              const uint64_t repeated = plan.repeated_slot().value_or(UINT64_MAX);
              for (uint64_t slot = 0; slot < sequence.size(); ++slot) {
                if (slot != repeated) ++taken[sequence[slot]];
                if (slot == repeated) ++times[sequence[slot]];
              }
            }
          }
          for (size_t row = 0; row < taken.size(); ++row) {
            ASSERT_LE(taken[row], 1u);
            if (uneven == UnevenRows::kPad) {
              ASSERT_EQ(taken[row], 1u);
            } else {
              times[row] += 1 - taken[row];
            }
          }
        }
        const double mean =
            static_cast<double>(std::accumulate(times.begin(), times.end(), uint64_t{0})) / 320;
        EXPECT_GT(mean, 4);
        for (size_t row = 0; row < times.size(); ++row) {
          EXPECT_NEAR(times[row], mean, 6 * std::sqrt(mean)) << "row " << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::plan
