#include "plan/order/chunk_visits.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/memory/least_memory.h"
#include "plan/testing/random_units.h"

namespace penstock::plan {
namespace {

using testing::random_units;
using testing::Rng;

EpochOptions random_options(Rng& rng) {
  EpochOptions options;
  options.seed = rng();
  options.chunk_rows = static_cast<uint32_t>(1 + rng() % 40);
  options.chunks_per_block = static_cast<uint32_t>(1 + rng() % 12);
  options.batch_size = static_cast<uint32_t>(1 + rng() % (rng() % 2 == 0 ? 8 : 300));
  options.uneven = static_cast<UnevenRows>(rng() % 3);
  options.shard.world_size = static_cast<uint32_t>(1 + rng() % 4);
  options.shard.num_workers = static_cast<uint32_t>(1 + rng() % 3);
  return options;
}

/// The positions in the order in which they leave; checks that slots are a bijection.
std::vector<uint64_t> sequence_of(const EpochPlan& plan) {
  std::vector<uint64_t> sequence(plan.row_count(), UINT64_MAX);
  std::vector<Placement> placements;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    plan.place(i, placements);
    EXPECT_EQ(placements.size(), plan.visit(i).row_count());
    EXPECT_TRUE(std::is_sorted(placements.begin(), placements.end(),
                               [](auto& a, auto& b) { return a.row < b.row; }));
    for (const Placement& each : placements) {
      EXPECT_LT(each.row, plan.visit(i).selected_rows);
      EXPECT_EQ(sequence.at(each.slot), UINT64_MAX);
      sequence[each.slot] = plan.visit(i).first_position + each.row;
      const size_t bucket = plan.bucket_of(each.slot);
      EXPECT_GE(i, plan.earliest_visit_of_bucket(bucket));
      EXPECT_LE(i, plan.last_visit_of_bucket(bucket));
    }
  }
  EXPECT_EQ(std::count(sequence.begin(), sequence.end(), UINT64_MAX), 0);
  return sequence;
}

TEST(ChunkVisits, BlocksAreWholeChunksOfRandomPlaces) {
  const TestSeed seed(1);
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    const auto units = random_units(rng, 1 + rng() % 30, 60);
    EpochOptions options = random_options(rng);
    options.shard = {};
    const EpochPlan plan(units, options, 1);
    const auto sequence = sequence_of(plan);
    const uint64_t rows = units.back().first_position + units.back().row_count;
    ASSERT_EQ(sequence.size(), rows);
    std::set<uint64_t> chunks_seen;
    for (size_t block = 0; block < plan.bucket_count(); ++block) {
      std::map<uint64_t, std::set<uint64_t>> rows_of_chunk;
      for (uint64_t slot = plan.bucket_begin(block); slot < plan.bucket_begin(block + 1); ++slot) {
        rows_of_chunk[sequence[slot] / options.chunk_rows].insert(sequence[slot]);
      }
      if (block + 1 < plan.bucket_count()) {
        ASSERT_EQ(rows_of_chunk.size(), options.chunks_per_block);
      }
      for (const auto& [chunk, of_chunk] : rows_of_chunk) {
        const uint64_t begin = chunk * options.chunk_rows;
        ASSERT_EQ(of_chunk.size(), std::min<uint64_t>(options.chunk_rows, rows - begin));
        ASSERT_TRUE(chunks_seen.insert(chunk).second);
      }
    }
    ++options.epoch;
    if (rows > 50 && options.chunk_rows < 5) {
      EXPECT_NE(sequence_of(EpochPlan(units, options, 1)), sequence);
    }
  }
}

// A chunk is equally likely in every place, and a row in every place of its block.
TEST(ChunkVisits, OrdersAreUniform) {
  const std::vector<UnitRows> units = {{0, 0, 3, 10}, {1, 3, 5, 10}, {2, 8, 4, 10}};
  EpochOptions options;
  options.chunk_rows = 2;
  options.chunks_per_block = 3;
  std::vector<std::vector<double>> times(12, std::vector<double>(12));
  constexpr uint64_t kEpochs = 24000;
  for (options.epoch = 0; options.epoch < kEpochs; ++options.epoch) {
    const auto sequence = sequence_of(EpochPlan(units, options, 1));
    for (size_t slot = 0; slot < 12; ++slot) ++times[sequence[slot]][slot];
  }
  double chi = 0;
  for (const auto& row : times) {
    for (const double count : row) chi += (count - 2000) * (count - 2000) / 2000;
  }
  EXPECT_LT(chi, 121 + 5 * 15.6);  // 11 * 11 degrees of freedom
}

TEST(ChunkVisits, SharesAreEqualAndCompleteForRandomShapes) {
  const TestSeed seed(2);
  Rng rng(seed);
  for (int round = 0; round < 300; ++round) {
    const auto units = random_units(rng, 1 + rng() % 30, 40);
    const uint64_t rows = units.back().first_position + units.back().row_count;
    EpochOptions options = random_options(rng);
    std::vector<uint64_t> all, batches;
    uint64_t repeated = 0, fingerprint = 0;
    for (uint32_t rank = 0; rank < options.shard.world_size; ++rank) {
      batches.push_back(0);
      for (uint32_t worker = 0; worker < options.shard.num_workers; ++worker) {
        options.shard.rank = rank;
        options.shard.worker = worker;
        const EpochPlan plan(units, options, 1);
        const auto part = sequence_of(plan);
        all.insert(all.end(), part.begin(), part.end());
        batches.back() += plan.batch_count();
        repeated += plan.repeated_slot().has_value();
        if (rank + worker == 0) fingerprint = plan.fingerprint();
        ASSERT_EQ(plan.fingerprint(), fingerprint);
      }
    }
    EXPECT_EQ(std::set<uint64_t>(batches.begin(), batches.end()).size(), 1U);
    std::sort(all.begin(), all.end());
    const uint64_t distinct =
        static_cast<uint64_t>(std::unique(all.begin(), all.end()) - all.begin());
    if (options.uneven == UnevenRows::kDrop) {
      EXPECT_EQ(distinct, all.size());
      EXPECT_EQ(distinct, rows / options.shard.world_size * options.shard.world_size);
    } else {
      EXPECT_EQ(distinct, rows);
      EXPECT_EQ(all.size() - distinct, options.uneven == UnevenRows::kPad ? repeated : 0);
    }
  }
}

// Whatever the order, what is said to be enough is.
TEST(ChunkVisits, TheLeastIsEnough) {
  const TestSeed seed(3);
  Rng rng(seed);
  for (int round = 0; round < 400; ++round) {
    const auto units = random_units(rng, 1 + rng() % 30, 40);
    EpochOptions options = random_options(rng);
    options.shard.rank = static_cast<uint32_t>(rng() % options.shard.world_size);
    options.shard.worker = static_cast<uint32_t>(rng() % options.shard.num_workers);
    const uint64_t page = 1 + rng() % 200;
    const auto ahead = static_cast<uint32_t>(rng() % 4);
    uint64_t needed = 0;
    EpochPlan::choose_spread(units, options, UINT64_MAX, ahead, page, &needed);
    ASSERT_LE(needed, least_row_bytes(units, options, ahead, page));
    const uint32_t spread = EpochPlan::choose_spread(units, options, needed, ahead, page);
    const EpochPlan plan(units, options, spread);
    if (plan.visit_count() == 0) continue;
    ASSERT_EQ(plan.occupancy(ahead, page).peak_bytes, needed);
    EXPECT_EQ(EpochPlan::choose_spread(units, options, needed - 1, ahead, page), 0U);
  }
}

TEST(ChunkVisits, RefuseWhatMakesNoSense) {
  const std::vector<UnitRows> units = {{0, 0, 3, 10}};
  EpochOptions options;
  options.chunk_rows = 4;
  EXPECT_THROW(EpochPlan(units, options, 1), InvalidArgument);
  options.chunks_per_block = 1;
  options.shuffle = false;
  EXPECT_THROW(EpochPlan(units, options, 1), InvalidArgument);
}

}  // namespace
}  // namespace penstock::plan
