#include "plan/order/global_order.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/batch_entropy.h"
#include "plan/order/global_visits.h"

namespace penstock::plan {
namespace {

using Rng = std::mt19937_64;

EpochOptions random_options(Rng& rng) {
  EpochOptions options;
  options.seed = rng();
  options.epoch = rng() % 4;
  options.batch_size = static_cast<uint32_t>(1 + rng() % (rng() % 2 == 0 ? 8 : 300));
  options.min_batch = 1 + static_cast<uint32_t>(rng() % options.batch_size) * (rng() % 3 == 0);
  options.uneven = static_cast<UnevenRows>(rng() % 3);
  options.drop_last = rng() % 4 == 0;
  options.shard.world_size = static_cast<uint32_t>(1 + rng() % 5);
  options.shard.num_workers = static_cast<uint32_t>(1 + rng() % 4);
  options.global_order = true;
  return options;
}

std::vector<uint64_t> sequence_of(const GlobalOrder& order) {
  std::vector<uint64_t> sequence;
  for (uint64_t slot = 0; slot < order.row_count(); ++slot) {
    sequence.push_back(order.position(slot));
  }
  return sequence;
}

struct Epoch {
  std::vector<uint64_t> rows;  ///< of all ranks and workers, without repeats
  std::vector<uint64_t> batches_of_rank;
  std::vector<uint64_t> repeats_of_rank;
};

Epoch play(uint64_t rows, EpochOptions options) {
  Epoch epoch;
  std::set<uint64_t> fingerprints;
  for (options.shard.rank = 0; options.shard.rank < options.shard.world_size;
       ++options.shard.rank) {
    epoch.batches_of_rank.push_back(0);
    epoch.repeats_of_rank.push_back(0);
    for (options.shard.worker = 0; options.shard.worker < options.shard.num_workers;
         ++options.shard.worker) {
      const GlobalOrder order(rows, options);
      fingerprints.insert(order.fingerprint());
      epoch.batches_of_rank.back() += order.batch_count();
      const bool repeats = order.repeated_slot().has_value();
      epoch.repeats_of_rank.back() += repeats;
      for (uint64_t slot = 0; slot < order.row_count(); ++slot) {
        const uint64_t position = order.position(slot);
        EXPECT_LT(position, rows);
        if (repeats && slot == *order.repeated_slot()) continue;
        EXPECT_EQ(order.slot(position), slot);
        epoch.rows.push_back(position);
      }
      EXPECT_EQ(order.batch_begin(order.batch_count()), order.row_count());
      for (uint64_t batch = 0; batch < order.batch_count(); ++batch) {
        const uint64_t size = order.batch_begin(batch + 1) - order.batch_begin(batch);
        EXPECT_LE(size, uint64_t{options.batch_size} + options.min_batch);
        if (options.uneven == UnevenRows::kExact) continue;
        EXPECT_GE(size, options.min_batch);
        if (batch + 1 < order.batch_count()) {
          EXPECT_EQ(size, options.batch_size);
        }
      }
    }
  }
  EXPECT_EQ(fingerprints.size(), 1U);
  return epoch;
}

TEST(GlobalOrder, EveryRowOnceAndEqualBatchesForThousandsOfShapes) {
  const TestSeed seed(1);
  Rng rng(seed);
  for (int round = 0; round < 4000; ++round) {
    const uint64_t rows = rng() % (round % 10 == 0 ? 3000 : 200);
    const EpochOptions options = random_options(rng);
    SCOPED_TRACE("round " + std::to_string(round) + ", rows " + std::to_string(rows));
    Epoch epoch = play(rows, options);
    std::sort(epoch.rows.begin(), epoch.rows.end());
    ASSERT_EQ(std::adjacent_find(epoch.rows.begin(), epoch.rows.end()), epoch.rows.end());
    for (const uint64_t batches : epoch.batches_of_rank) {
      ASSERT_EQ(batches, epoch.batches_of_rank[0]);
    }
    const uint64_t world = options.shard.world_size;
    if (options.uneven == UnevenRows::kExact) {
      ASSERT_EQ(epoch.rows.size(), rows);
    } else if (!options.drop_last && options.min_batch == 1) {
      ASSERT_EQ(epoch.rows.size(),
                options.uneven == UnevenRows::kDrop ? rows / world * world : rows);
    }
    for (const uint64_t repeats : epoch.repeats_of_rank) {
      ASSERT_LE(repeats, options.uneven == UnevenRows::kPad && world > 1 ? 1U : 0U);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Ranks take stretches of one sequence, the same for any world.
TEST(GlobalOrder, WorldsCutTheSameSequence) {
  EpochOptions options;
  options.seed = 5;
  options.uneven = UnevenRows::kExact;
  const auto whole = sequence_of(GlobalOrder(70'001, options));
  std::vector<uint64_t> joined;
  options.shard.world_size = 3;
  options.shard.num_workers = 2;
  for (uint32_t share = 0; share < 6; ++share) {
    options.shard.rank = share / 2;
    options.shard.worker = share % 2;
    const auto part = sequence_of(GlobalOrder(70'001, options));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, whole);
}

TEST(GlobalOrder, TheFingerprintIsOfAllThatTheOrderDependsOn) {
  std::set<uint64_t> seen;
  const auto add = [&](auto change, uint64_t rows = 1000) {
    EpochOptions options;
    change(options);
    seen.insert(GlobalOrder(rows, options).fingerprint());
  };
  add([](auto&) {});
  add([](auto&) {}, 1001);
  add([](auto& o) { o.seed = 1; });
  add([](auto& o) { o.epoch = 1; });
  add([](auto& o) { o.shard.world_size = 2; });
  add([](auto& o) { o.shard.num_workers = 2; });
  add([](auto& o) { o.uneven = UnevenRows::kPad; });
  add([](auto& o) { o.batch_size = 2; });
  add([](auto& o) { o.drop_last = true; });
  add([](auto& o) { o.min_batch = 2; });
  EXPECT_EQ(seen.size(), 10U);
  add([](auto& o) { o.block_rows = 3; });  // how it is read does not matter
  add([](auto& o) { o.prefill_rows = 3; });
  EXPECT_EQ(seen.size(), 10U);
}

TEST(GlobalOrder, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  for (const uint64_t rows : {uint64_t{1000}, uint64_t{100'000}}) {  // a table, and a network
    std::set<std::vector<uint64_t>> orders;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      for (uint64_t epoch = 0; epoch < 5; ++epoch) {
        EpochOptions options;
        options.seed = seed;
        options.epoch = epoch;
        const GlobalOrder order(rows, options);
        std::vector<uint64_t> first;
        for (uint64_t slot = 0; slot < 20; ++slot) first.push_back(order.position(slot));
        orders.insert(first);
      }
    }
    EXPECT_EQ(orders.size(), 25U);
  }
}

// Any row may be the one that kPad repeats.
TEST(GlobalOrder, EveryRowIsRepeatedEquallyOften) {
  EpochOptions options;
  options.uneven = UnevenRows::kPad;
  options.shard.world_size = 2;
  options.shard.rank = 1;
  std::vector<int> counts(5);
  for (options.seed = 0; options.seed < 5000; ++options.seed) {
    const GlobalOrder order(5, options);
    ASSERT_TRUE(order.repeated_slot());
    ++counts[order.position(*order.repeated_slot())];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 4.5 * std::sqrt(1000));
}

std::vector<UnitRows> random_units(Rng& rng, size_t count, uint32_t max_rows) {
  std::vector<UnitRows> units;
  uint64_t position = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto rows = static_cast<uint32_t>(1 + rng() % max_rows);
    units.push_back({static_cast<uint32_t>(i * 3), position, rows, rows * (100 + rng() % 50)});
    position += rows;
  }
  return units;
}

// Units that are read in blocks of any size give the same order.
TEST(GlobalVisits, KeepTheOrderWhateverTheBlock) {
  const TestSeed seed(3);
  Rng rng(seed);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto units = random_units(rng, 1 + rng() % 20, 40);
    const uint64_t rows = units.back().first_position + units.back().row_count;
    EpochOptions options = random_options(rng);
    options.shard.rank = static_cast<uint32_t>(rng() % options.shard.world_size);
    options.shard.worker = static_cast<uint32_t>(rng() % options.shard.num_workers);
    options.block_rows = 1 + rng() % (rows + 3);
    const GlobalOrder order(rows, options);
    const EpochPlan plan(units, options, 1);
    ASSERT_EQ(plan.row_count(), order.row_count());
    ASSERT_EQ(plan.batch_count(), order.batch_count());
    ASSERT_EQ(plan.fingerprint(), order.fingerprint());
    ASSERT_EQ(plan.repeated_slot(), order.repeated_slot());
    for (uint64_t batch = 0; batch <= plan.batch_count(); ++batch) {
      ASSERT_EQ(plan.batch_begin(batch), order.batch_begin(batch));
    }
    ASSERT_EQ(plan.bucket_count(),
              (order.row_count() + options.block_rows - 1) / options.block_rows);
    std::vector<uint64_t> sequence(plan.row_count(), UINT64_MAX);
    std::vector<Placement> placements;
    for (size_t i = 0; i < plan.visit_count(); ++i) {
      plan.place(i, placements);
      ASSERT_EQ(placements.size(), plan.visit(i).row_count());
      for (size_t k = 0; k < placements.size(); ++k) {
        const auto& each = placements[k];
        ASSERT_LE(placements[k > 0 ? k - 1 : 0].row, each.row);
        sequence.at(each.slot) = plan.visit(i).first_position + each.row;
        const size_t bucket = plan.bucket_of(each.slot);
        ASSERT_GE(i, plan.earliest_visit_of_bucket(bucket));
        ASSERT_LE(i, plan.last_visit_of_bucket(bucket));
      }
    }
    ASSERT_EQ(sequence, sequence_of(order));
    std::vector<uint32_t> labels(rows);
    for (uint64_t i = 0; i < rows; ++i)
      labels[i] = static_cast<uint32_t>(i * std::min<uint64_t>(5, rows) / rows);
    const auto by_plan = batch_entropy(plan, labels);
    const auto by_order = batch_entropy(order, labels);
    ASSERT_EQ(by_plan.bits, by_order.bits);
    ASSERT_EQ(by_plan.label_rows, by_order.label_rows);
  }
}

TEST(GlobalVisits, BlocksFillTheBudget) {
  const TestSeed seed(4);
  Rng rng(seed);
  for (int round = 0; round < 300; ++round) {
    const auto units = random_units(rng, 1 + rng() % 30, 200);
    EpochOptions options = random_options(rng);
    options.shard = {};
    uint64_t bytes = 0;
    for (const UnitRows& unit : units) bytes += unit.packed_bytes;
    options.block_rows = global_block_rows(units, bytes + 64, 2, 64);
    const EpochPlan all(units, options, 1);
    ASSERT_EQ(all.bucket_count(), all.row_count() == 0 ? 0U : 1U);
    options.block_rows = global_block_rows(units, bytes / 2, 2, 64);
    ASSERT_GE(options.block_rows, 1U);
    uint64_t least = 0;
    EpochPlan::choose_spread(units, options, bytes / 2, 2, 64, &least);
    ASSERT_LT(least, bytes / 2 + bytes / 4 + 40'000);  // rows differ in size
  }
}

TEST(GlobalOrder, OptionsThatMakeNoSense) {
  const std::vector<UnitRows> units = {{0, 0, 10, 100}};
  EpochOptions options;
  options.global_order = true;
  EXPECT_THROW(EpochPlan(units, options, 1), InvalidArgument);  // no rows in a block
  options.block_rows = 4;
  EXPECT_NO_THROW(EpochPlan(units, options, 1));
  options.shuffle = false;
  EXPECT_THROW(EpochPlan(units, options, 1), InvalidArgument);
  options.shuffle = true;
  options.chunk_rows = options.chunks_per_block = 2;
  EXPECT_THROW(EpochPlan(units, options, 1), InvalidArgument);
  options = {};
  options.shard.rank = 1;
  EXPECT_THROW(GlobalOrder(10, options), InvalidArgument);
}

}  // namespace
}  // namespace penstock::plan
