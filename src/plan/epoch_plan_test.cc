#include "plan/epoch_plan.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/hash64.h"
#include "plan/rank_cut.h"
#include "plan/testing/random_units.h"

namespace penstock::plan {
namespace {

using testing::random_units;
using testing::Rng;

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
  options.min_batch =
      rng() % 2 == 0 ? 1 : static_cast<uint32_t>(1 + rng() % std::min(options.batch_size, 9U));
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
  std::vector<uint64_t> repeated;  ///< positions that plans mark as repeated
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
  const bool pad = options.uneven == Uneven::kPad;
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

TEST(EpochPlan, EveryRowOnceForThousandsOfShapes) {
  Rng rng(1);
  for (int round = 0; round < 4000 && !::testing::Test::HasFailure(); ++round) {
    const size_t count = rng() % (round % 10 == 0 ? 300 : 12);
    const auto units = random_units(rng, count, static_cast<uint32_t>(1 + rng() % 60));
    const auto options = random_options(rng);
    SCOPED_TRACE("round " + std::to_string(round) + ", units " + std::to_string(count) + ", rows " +
                 std::to_string(total_rows(units)));
    check_world(units, options, rng);
  }
}

TEST(EpochPlan, EveryRowOnceForAllSmallShapes) {
  Rng rng(2);
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
            options.shape = {world, 0, workers, 0};
            options.batch_size = batch;
            options.uneven = static_cast<Uneven>(variant % 3);
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
  options.shape = {2, 1, 2, 0};
  const EpochPlan plan(units, options, 20);
  uint64_t hash = 0;
  for (const uint64_t position : sequence_of(plan)) hash = hash_combine(hash, position);
  EXPECT_EQ(hash, 17119141360159654696u);
  EXPECT_EQ(plan.fingerprint(), 276773476074392458u);

  // Ranks that share units, workers that do not.
  units.resize(100);
  options.shape = {4, 2, 3, 1};
  hash = 0;
  for (const uint64_t position : sequence_of(EpochPlan(units, options, 20))) {
    hash = hash_combine(hash, position);
  }
  EXPECT_EQ(hash, 11639422222271856165u);
}

TEST(EpochPlan, OrderAndCutDoNotDependOnSpreadOrBudget) {
  Rng rng(4);
  for (int round = 0; round < 200; ++round) {
    auto units = random_units(rng, 1 + rng() % 300, 50);
    auto options = random_options(rng);
    options.shape.rank = static_cast<uint32_t>(rng()) % options.shape.world_size;
    options.shape.worker = static_cast<uint32_t>(rng()) % options.shape.num_workers;
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
  Rng rng(5);
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
  Rng rng(6);
  for (int round = 0; round < 300; ++round) {
    const auto units = random_units(rng, 1 + rng() % 150, round % 2 == 0 ? 400 : 5);
    auto options = random_options(rng);
    options.shape.rank = options.shape.worker = 0;
    const auto ahead = static_cast<uint32_t>(rng() % 6);
    const EpochPlan plan(units, options, static_cast<uint32_t>(1 + rng() % 60));
    std::vector<uint64_t> bucket_rows(plan.bucket_count());
    std::vector<double> bucket_bytes(plan.bucket_count());
    std::vector<Placement> placements;
    double rows = 0, bytes = 0, peak_rows = 0, peak_bytes = 0, largest_row = 0;
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
      EXPECT_EQ(bucket_rows[bucket], plan.bucket_begin(bucket + 1) - plan.bucket_begin(bucket));
      rows -= static_cast<double>(bucket_rows[bucket]);
      bytes -= bucket_bytes[bucket];
    }
    EXPECT_EQ(rows, 0);
    const Occupancy occupancy = plan.occupancy(ahead, 0);
    EXPECT_EQ(static_cast<double>(occupancy.peak_rows), peak_rows);
    // Bytes are counted in equal parts, rows come whole: a row or so for each open bucket is the
    // difference.
    EXPECT_NEAR(static_cast<double>(occupancy.peak_bytes), peak_bytes,
                0.02 * peak_bytes + largest_row * (2 + plan.spread()));
    EXPECT_GE(plan.occupancy(ahead, 100).peak_bytes, occupancy.peak_bytes);
  }
}

TEST(EpochPlan, ChooseSpreadTakesTheLargestThatFits) {
  Rng rng(7);
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
    if (spread == units.size()) {
      EXPECT_EQ(plan.bucket_count(), 1u);
    } else {
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
  Rng rng(9);
  std::vector<UnitRows> units;
  for (uint32_t i = 0; i < 500; ++i) units.push_back({i, uint64_t{i} * 777, 777, 777});
  const uint32_t spread = 100;
  const EpochPlan plan(units, {}, spread);
  std::vector<Placement> placements;
  const size_t head = plan.last_visit_of_bucket(0);
  for (size_t i = 50; i < 350; ++i) {
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

TEST(EpochPlan, DroppedAndRepeatedRowsDifferFromEpochToEpoch) {
  Rng rng(10);
  const auto units = random_units(rng, 40, 100);
  const uint64_t rows = total_rows(units);
  ASSERT_NE(rows % 7, 0u);
  std::set<std::vector<uint64_t>> dropped, repeated;
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    EpochOptions options;
    options.epoch = epoch;
    options.shape.world_size = 7;
    for (const Uneven uneven : {Uneven::kDrop, Uneven::kPad}) {
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
      (uneven == Uneven::kDrop ? dropped : repeated).insert(odd);
    }
  }
  EXPECT_EQ(dropped.size(), 10u);
  EXPECT_EQ(repeated.size(), 10u);
}

// Each as often as another, in the long run: where parts of units are stored rows and where not,
// with ranks that share units and with workers that do not.
TEST(EpochPlan, AnyRowMayBeLeftOutOrRepeated) {
  for (const uint32_t unit_count : {8u, 20u, 160u}) {
    for (const auto& [world, workers] : {std::pair{3u, 1u}, {7u, 1u}, {1u, 3u}}) {
      for (const Uneven uneven : {Uneven::kDrop, Uneven::kPad}) {
        if (world == 1 && uneven == Uneven::kPad) continue;  // nothing is repeated
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
          options.drop_last = uneven == Uneven::kDrop;
          std::vector<uint32_t> taken(320);
          for (uint32_t rank = 0; rank < world; ++rank) {
            for (uint32_t worker = 0; worker < workers; ++worker) {
              options.shape = {world, rank, workers, worker};
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
            if (uneven == Uneven::kPad) {
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

TEST(EpochPlan, FingerprintTellsGlobalPlansApart) {
  Rng rng(11);
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
  other.shape.world_size = 2, add(other), other = base;
  other.shape.num_workers = 2, add(other), other = base;
  other.uneven = Uneven::kPad, add(other), other = base;
  other.batch_size = 64, add(other), other = base;
  other.drop_last = true, add(other), other = base;
  auto fewer = units;
  --fewer.back().row_count;
  prints.insert(EpochPlan(fewer, base, 3).fingerprint());
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
