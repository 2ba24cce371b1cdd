#include "plan/epoch_plan.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/hash/hash64.h"
#include "base/testing/test_seed.h"
#include "plan/cut/first_visits.h"
#include "plan/testing/plan_sequence.h"
#include "plan/testing/random_options.h"
#include "plan/testing/random_units.h"

namespace penstock::plan {
namespace {

using testing::random_options;
using testing::random_units;
using testing::Rng;
using testing::sequence_of;
using testing::total_rows;

TEST(EpochPlan, SameAgainForTheSameEpochAndAnotherForTheNext) {
  Rng rng(3);
  const auto units = random_units(rng, 80, 300);
  EpochOptions options;
  options.seed = 11;
  const auto first = sequence_of(EpochPlan(units, options, 10));
  EXPECT_TRUE(sequence_of(EpochPlan(units, options, 10)) == first);
  for (const bool next_seed : {false, true}) {
    EpochOptions other = options;
    next_seed ? ++other.seed : ++other.epoch;
    const auto second = sequence_of(EpochPlan(units, other, 10));
    size_t equal = 0, neighbours = 0;
    std::vector<uint64_t> place(first.size());
    for (size_t i = 0; i < first.size(); ++i) place[second[i]] = i;
    for (size_t i = 0; i < first.size(); ++i) {
      equal += first[i] == second[i] ? 1 : 0;
      if (i > 0 && place[first[i]] == place[first[i - 1]] + 1) ++neighbours;
    }
    EXPECT_LT(equal, 10u);
    EXPECT_LT(neighbours, 20u);
    EXPECT_NE(EpochPlan(units, other, 10).fingerprint(),
              EpochPlan(units, options, 10).fingerprint());
  }
}

// Checkpoints and ranks rely on it: a change of this order is a change of the fingerprint's
// version.
TEST(EpochPlan, TheOrderIsFixed) {
  std::vector<UnitRows> units;
  for (uint32_t i = 0; i < 300; ++i) units.push_back({i, uint64_t{i} * 50, 50, 5000});
  EpochOptions options;
  options.seed = 42;
  options.epoch = 3;
  options.shard = {2, 1, 2, 0};
  const EpochPlan plan(units, options, 20);
  uint64_t hash = 0;
  for (const uint64_t position : sequence_of(plan)) hash = hash_combine(hash, position);
  EXPECT_EQ(hash, 17119141360159654696u);
  EXPECT_EQ(plan.fingerprint(), 9718383503985758613u);

  // Ranks that share units, workers that do not.
  units.resize(100);
  options.shard = {4, 2, 3, 1};
  hash = 0;
  for (const uint64_t position : sequence_of(EpochPlan(units, options, 20))) {
    hash = hash_combine(hash, position);
  }
  EXPECT_EQ(hash, 11639422222271856165u);

  // One process, whose first visits are divided.
  for (UnitRows& unit : units) unit = {unit.unit, uint64_t{unit.unit} * 600, 600, 60000};
  options.shard = {};
  const EpochPlan alone(units, options, 20);
  EXPECT_GT(alone.visit_count(), units.size());
  hash = 0;
  for (const uint64_t position : sequence_of(alone)) hash = hash_combine(hash, position);
  EXPECT_EQ(hash, 3921074529322319187u);
  EXPECT_EQ(alone.fingerprint(), 8308596654524431534u);
}

TEST(EpochPlan, OrderAndCutDoNotDependOnSpreadOrBudget) {
  const TestSeed seed(4);
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    auto units = random_units(rng, 1 + rng() % 300, 50);
    auto options = random_options(rng);
    options.shard.rank = static_cast<uint32_t>(rng()) % options.shard.world_size;
    options.shard.worker = static_cast<uint32_t>(rng()) % options.shard.num_workers;
    const EpochPlan narrow(units, options, 1);
    for (UnitRows& unit : units) unit.packed_bytes *= 3;
    options.prefill_rows += 1000;
    const EpochPlan wide(units, options, 1000);
    EXPECT_EQ(narrow.fingerprint(), wide.fingerprint());
    ASSERT_EQ(narrow.visit_count(), wide.visit_count());
    EXPECT_EQ(narrow.batch_count(), wide.batch_count());
    for (size_t i = 0; i < wide.visit_count(); ++i) {
      EXPECT_EQ(narrow.visit(i).unit, wide.visit(i).unit);
      EXPECT_EQ(narrow.visit(i).part_begin, wide.visit(i).part_begin);
      EXPECT_EQ(narrow.visit(i).part_end, wide.visit(i).part_end);
    }
    auto a = sequence_of(narrow), b = sequence_of(wide);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    // A repeated row of a unit that comes whole may be the same row twice, whatever the spread.
    EXPECT_TRUE(a == b);
  }
}

TEST(EpochPlan, StoredOrderWithoutShuffling) {
  const TestSeed seed(5);
  Rng rng(seed);
  const auto units = random_units(rng, 50, 100);
  EpochOptions options;
  options.shuffle = false;
  const EpochPlan plan(units, options, 20);
  EXPECT_EQ(plan.spread(), 1u);
  const auto sequence = sequence_of(plan);
  ASSERT_EQ(sequence.size(), total_rows(units));
  for (size_t i = 0; i < sequence.size(); ++i) ASSERT_EQ(sequence[i], i);
  for (size_t i = 0; i < plan.bucket_count(); ++i) EXPECT_EQ(plan.last_visit_of_bucket(i), i);
}

// Rows resident while a bucket leaves, by putting every row into its bucket.
TEST(EpochPlan, OccupancyIsThatOfAReplay) {
  const TestSeed seed(6);
  Rng rng(seed);
  uint64_t plans = 0, same_tables = 0;
  for (int round = 0; round < 300; ++round) {
    const auto units = random_units(rng, 1 + rng() % 150, round % 2 == 0 ? 400 : 5);
    auto options = random_options(rng);
    options.shard.rank = options.shard.worker = 0;
    const auto ahead = static_cast<uint32_t>(rng() % 6);
    const EpochPlan plan(units, options, static_cast<uint32_t>(1 + rng() % 60));
    std::vector<uint64_t> bucket_rows(plan.bucket_count());
    std::vector<double> bucket_bytes(plan.bucket_count());
    std::vector<Placement> placements;
    double rows = 0, bytes = 0, peak_rows = 0, peak_bytes = 0, largest_row = 0;
    uint64_t table_rows = 0;
    size_t next = 0;
    for (size_t bucket = 0; bucket < plan.bucket_count(); ++bucket) {
      // Rows leave when the batches are made that begin in the bucket.
      size_t due = plan.last_visit_of_bucket(bucket) + 1;
      for (uint64_t batch = 0; batch < plan.batch_count(); ++batch) {
        const uint64_t begin = plan.batch_begin(batch);
        if (begin >= plan.bucket_begin(bucket + 1) || begin == plan.batch_begin(batch + 1) ||
            plan.batch_begin(batch + 1) <= plan.bucket_begin(bucket)) {
          continue;
        }
        size_t last = bucket;
        while (plan.bucket_begin(last + 1) < plan.batch_begin(batch + 1)) ++last;
        due = std::max(due, plan.last_visit_of_bucket(last));
      }
      for (; next < plan.visit_count() && next <= due + ahead; ++next) {
        const Visit& visit = plan.visit(next);
        const double row_bytes = static_cast<double>(visit.packed_bytes) / visit.row_count();
        largest_row = std::max(largest_row, row_bytes);
        plan.place(next, placements);
        for (const Placement& placement : placements) {
          size_t into = bucket;
          while (plan.bucket_begin(into + 1) <= placement.slot) ++into;
          ++bucket_rows[into];
          bucket_bytes[into] += row_bytes;
          ++rows;
          bytes += row_bytes;
        }
      }
      peak_rows = std::max(peak_rows, rows);
      peak_bytes = std::max(peak_bytes, bytes);
      uint64_t open_rows = 0;
      for (size_t i = bucket; i < plan.bucket_count() && bucket_rows[i] != 0; ++i) {
        open_rows += plan.bucket_begin(i + 1) - plan.bucket_begin(i);
      }
      table_rows = std::max(table_rows, open_rows);
      EXPECT_EQ(bucket_rows[bucket], plan.bucket_begin(bucket + 1) - plan.bucket_begin(bucket));
      rows -= static_cast<double>(bucket_rows[bucket]);
      bytes -= bucket_bytes[bucket];
    }
    EXPECT_EQ(rows, 0);
    const Occupancy occupancy = plan.occupancy(ahead, 0);
    EXPECT_EQ(static_cast<double>(occupancy.peak_rows), peak_rows);
    EXPECT_GE(occupancy.table_rows, table_rows);
    same_tables += occupancy.table_rows == table_rows ? 1 : 0;
    ++plans;
    // Bytes are counted in equal parts, rows come whole: a row or so for each open bucket is the
    // difference.
    EXPECT_NEAR(static_cast<double>(occupancy.peak_bytes), peak_bytes,
                0.02 * peak_bytes + largest_row * (2 + plan.spread()));
    EXPECT_GE(plan.occupancy(ahead, 100).peak_bytes, occupancy.peak_bytes);
  }
  // A visit of few rows may leave out its last bucket.
  EXPECT_GT(same_tables, plans / 2);
}

TEST(EpochPlan, ChooseSpreadTakesTheLargestThatFits) {
  const TestSeed seed(7);
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    const auto units = random_units(rng, 1 + rng() % 300, 300);
    EpochOptions options;
    options.seed = rng();
    options.prefill_rows = rng() % 3000;
    uint64_t bytes = 0;
    for (const UnitRows& unit : units) bytes += unit.packed_bytes;
    const uint64_t budget = rng() % (bytes + bytes / 2 + 1);
    const auto ahead = static_cast<uint32_t>(rng() % 4);
    uint64_t least = 0;
    const uint32_t spread = EpochPlan::choose_spread(units, options, budget, ahead, 64, &least);
    EXPECT_EQ(least, EpochPlan(units, options, 1).occupancy(ahead, 64).peak_bytes);
    if (spread == 0) {
      EXPECT_GT(least, budget);
      continue;
    }
    const EpochPlan plan(units, options, spread);
    EXPECT_EQ(plan.spread(), spread);
    EXPECT_LE(plan.occupancy(ahead, 64).peak_bytes, budget);
    if (spread == plan.visit_count()) {
      EXPECT_EQ(plan.bucket_count(), 1u);
      EXPECT_LE(plan.row_count(), 2 * options.prefill_rows);
    } else if (spread + 1 < plan.visit_count()) {
      EXPECT_GT(EpochPlan(units, options, spread + 1).occupancy(ahead, 64).peak_bytes, budget);
    }
  }
}

// Design, "Memory": about half of the rows of K units are in memory.
TEST(EpochPlan, HalfOfTheRowsOfSpreadUnitsAreInMemory) {
  Rng rng(8);
  const auto units = random_units(rng, 3000, 2000);
  const EpochPlan plan(units, {}, 300);
  const double mean_rows = static_cast<double>(total_rows(units)) / 3000;
  EXPECT_NEAR(static_cast<double>(plan.occupancy(0, 0).peak_rows), 150 * mean_rows, 15 * mean_rows);
}

// A visit's rows lie evenly in its K buckets, each bucket has its rows evenly from its visits.
TEST(EpochPlan, RowsAreSpreadEvenly) {
  const TestSeed seed(9);
  Rng rng(seed);
  std::vector<UnitRows> units;
  for (uint32_t i = 0; i < 500; ++i) units.push_back({i, uint64_t{i} * 777, 777, 777});
  const uint32_t spread = 100;
  const EpochPlan plan(units, {}, spread);
  std::vector<Placement> placements;
  const size_t head = plan.last_visit_of_bucket(0);
  const size_t whole = 2 * kFirstVisits;  // visits from here on have all rows of their unit
  for (size_t i = whole; i < 400; ++i) {
    std::map<size_t, uint32_t> rows;
    plan.place(i, placements);
    for (const Placement& placement : placements) {
      size_t bucket = i - head;
      while (plan.bucket_begin(bucket + 1) <= placement.slot) ++bucket;
      ++rows[bucket];
    }
    EXPECT_EQ(rows.size(), spread);
    EXPECT_EQ(rows.begin()->first, i - head);
    EXPECT_EQ(rows.rbegin()->first, i - head + spread - 1);
    for (const auto& [bucket, count] : rows) EXPECT_NEAR(count, 777.0 / spread, 1);
  }
}

// With one bucket the shuffle is uniform over all rows.
TEST(EpochPlan, OneBucketIsAUniformShuffle) {
  std::vector<UnitRows> units = {{0, 0, 2, 1}, {1, 2, 1, 1}, {2, 3, 2, 1}};
  std::map<std::vector<uint64_t>, uint32_t> times;
  EpochOptions options;
  for (options.seed = 0; options.seed < 60000; ++options.seed) {
    ++times[sequence_of(EpochPlan(units, options, 3))];
  }
  EXPECT_EQ(times.size(), 120u);
  for (const auto& [sequence, count] : times) EXPECT_NEAR(count, 500, 130);
}

TEST(EpochPlan, FingerprintTellsGlobalPlansApart) {
  const TestSeed seed(11);
  Rng rng(seed);
  const auto units = random_units(rng, 20, 30);
  const EpochOptions base;
  std::set<uint64_t> prints = {EpochPlan(units, base, 3).fingerprint()};
  const auto add = [&](const EpochOptions& options) {
    prints.insert(EpochPlan(units, options, 3).fingerprint());
  };
  EpochOptions other = base;
  other.seed = 1, add(other), other = base;
  other.epoch = 1, add(other), other = base;
  other.shuffle = false, add(other), other = base;
  other.shard.world_size = 2, add(other), other = base;
  other.shard.num_workers = 2, add(other), other = base;
  other.uneven = UnevenRows::kPad, add(other), other = base;
  other.batch_size = 64, add(other), other = base;
  other.drop_last = true, add(other), other = base;
  auto longer = units;
  ++longer.back().row_count;
  prints.insert(EpochPlan(longer, base, 3).fingerprint());
  EXPECT_EQ(prints.size(), 10u);
}

TEST(EpochPlan, NothingToRead) {
  const EpochPlan plan({}, {}, 5);
  EXPECT_EQ(plan.row_count(), 0u);
  EXPECT_EQ(plan.batch_count(), 0u);
  EXPECT_EQ(plan.bucket_count(), 0u);
  EXPECT_EQ(plan.visit_count(), 0u);
  EXPECT_EQ(plan.occupancy(3, 100).peak_bytes, 0u);
  EXPECT_EQ(EpochPlan::choose_spread({}, {}, 0, 3, 100), 1u);
  const std::vector<UnitRows> hollow = {{0, 0, 0, 0}};
  EXPECT_THROW(EpochPlan(hollow, {}, 1), InvalidArgument);
}

}  // namespace
}  // namespace penstock::plan
