#include "plan/epoch_plan.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace penstock::plan {
namespace {

using Rng = std::mt19937_64;

std::vector<UnitRows> random_units(Rng& rng, size_t count, uint32_t max_rows) {
  std::vector<UnitRows> units;
  uint64_t position = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto rows = static_cast<uint32_t>(1 + rng() % max_rows);
    units.push_back({static_cast<uint32_t>(i * 3 + 1), position, rows, rows * (100 + rng() % 50)});
    position += rows;
  }
  return units;
}

uint64_t total_rows(const std::vector<UnitRows>& units) {
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  return rows;
}

EpochOptions random_options(Rng& rng) {
  EpochOptions options;
  options.seed = rng();
  options.epoch = rng() % 5;
  options.shuffle = rng() % 4 != 0;
  options.shape.world_size = static_cast<uint32_t>(1 + rng() % (rng() % 3 == 0 ? 9 : 3));
  options.shape.num_workers = static_cast<uint32_t>(1 + rng() % (rng() % 3 == 0 ? 5 : 2));
  options.uneven = static_cast<Uneven>(rng() % 3);
  options.batch_size = static_cast<uint32_t>(1 + rng() % (rng() % 2 == 0 ? 8 : 200));
  options.drop_last = rng() % 3 == 0;
  options.prefill_rows = rng() % 500;
  return options;
}

// The positions (in the selection) that leave, in the order in which they leave; checks on the way
// that slots are a bijection, that a row's bucket is still to come, and that batches tile the rows.
std::vector<uint64_t> sequence_of(const EpochPlan& plan) {
  std::vector<uint64_t> sequence(plan.row_count(), UINT64_MAX);
  std::vector<Placement> placements;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    const Visit& visit = plan.visit(i);
    plan.place(i, placements);
    EXPECT_EQ(placements.size(), visit.row_count());
    uint32_t previous = 0;
    for (const Placement& placement : placements) {
      EXPECT_LT(placement.row, visit.unit_rows);
      EXPECT_GE(placement.row, previous);
      previous = placement.row;
      EXPECT_LT(placement.slot, sequence.size());
      if (placement.slot >= sequence.size()) continue;
      EXPECT_EQ(sequence[placement.slot], UINT64_MAX);
      sequence[placement.slot] = visit.first_position + placement.row;
      // A row must not arrive after its bucket has left.
      size_t low = 0, high = plan.bucket_count();
      while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        (plan.bucket_begin(middle) <= placement.slot ? low : high) = middle;
      }
      EXPECT_LE(i, plan.last_visit_of_bucket(low));
    }
  }
  EXPECT_EQ(std::count(sequence.begin(), sequence.end(), UINT64_MAX), 0);
  if (plan.bucket_count() > 0) {
    EXPECT_EQ(plan.bucket_begin(0), 0u);
    EXPECT_EQ(plan.bucket_begin(plan.bucket_count()), plan.row_count());
    EXPECT_EQ(plan.last_visit_of_bucket(plan.bucket_count() - 1), plan.visit_count() - 1);
  }
  EXPECT_EQ(plan.batch_begin(0), 0u);
  EXPECT_EQ(plan.batch_begin(plan.batch_count()), plan.row_count());
  return sequence;
}

struct World {
  std::vector<std::vector<uint64_t>> sequences;  ///< rank-major, then workers
  std::vector<uint64_t> rank_batches;
  std::vector<uint64_t> batch_sizes;
};

World play(const std::vector<UnitRows>& units, EpochOptions options, Rng& rng) {
  World world;
  uint64_t fingerprint = 0;
  for (uint32_t rank = 0; rank < options.shape.world_size; ++rank) {
    world.rank_batches.push_back(0);
    for (uint32_t worker = 0; worker < options.shape.num_workers; ++worker) {
      options.shape.rank = rank;
      options.shape.worker = worker;
      const EpochPlan plan(units, options, static_cast<uint32_t>(1 + rng() % 40));
      if (rank + worker == 0) fingerprint = plan.fingerprint();
      EXPECT_EQ(plan.fingerprint(), fingerprint);
      world.sequences.push_back(sequence_of(plan));
      world.rank_batches.back() += plan.batch_count();
      for (uint64_t batch = 0; batch < plan.batch_count(); ++batch) {
        world.batch_sizes.push_back(plan.batch_begin(batch + 1) - plan.batch_begin(batch));
      }
    }
  }
  return world;
}

// Every promise of the cut, for one shape.
void check_world(const std::vector<UnitRows>& units, const EpochOptions& options, Rng& rng) {
  const uint64_t rows = total_rows(units);
  const uint64_t ranks = options.shape.world_size, batch = options.batch_size;
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

  if (options.uneven == Uneven::kExact) {
    EXPECT_EQ(delivered, rows);
    EXPECT_EQ(repeats, 0u);
    if (!world.batch_sizes.empty()) {
      const auto [least, most] =
          std::minmax_element(world.batch_sizes.begin(), world.batch_sizes.end());
      EXPECT_LE(*most - *least, 1u);
      EXPECT_LE(*most, batch);
    }
    EXPECT_EQ(world.rank_batches[0], ((rows + ranks - 1) / ranks + batch - 1) / batch);
    return;
  }
  const bool pad = options.uneven == Uneven::kPad;
  const uint64_t quota = pad ? (rows + ranks - 1) / ranks : rows / ranks;
  const uint64_t kept = options.drop_last ? quota / batch * batch : quota;
  EXPECT_EQ(delivered, kept * ranks);
  EXPECT_EQ(world.rank_batches[0], (kept + batch - 1) / batch);
  if (!pad) {
    EXPECT_EQ(repeats, 0u);
  } else {
    EXPECT_LE(repeats, quota * ranks - rows);
    if (!options.drop_last) {
      EXPECT_EQ(times.size(), rows);
    }
  }
  uint64_t short_batches = 0;
  for (const uint64_t size : world.batch_sizes) {
    EXPECT_LE(size, batch);
    EXPECT_GT(size, 0u);
    short_batches += size < batch ? 1 : 0;
  }
  EXPECT_EQ(short_batches, kept % batch == 0 ? 0 : ranks);
}

TEST(EpochPlan, EveryRowOnceForThousandsOfShapes) {
  Rng rng(1);
  for (int round = 0; round < 4000 && !::testing::Test::HasFailure(); ++round) {
    const size_t count = rng() % (round % 10 == 0 ? 200 : 12);
    const auto units = random_units(rng, count, static_cast<uint32_t>(1 + rng() % 60));
    const auto options = random_options(rng);
    SCOPED_TRACE("round " + std::to_string(round) + ", units " + std::to_string(count) + ", rows " +
                 std::to_string(total_rows(units)));
    check_world(units, options, rng);
  }
}

}  // namespace
}  // namespace penstock::plan
