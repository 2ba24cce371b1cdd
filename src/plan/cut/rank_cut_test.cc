#include "plan/cut/rank_cut.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/testing/test_seed.h"
#include "plan/cut/apportion.h"

namespace penstock::plan {
namespace {

TEST(Apportion, SharesOfEveryLotAndExactTotals) {
  const TestSeed seed(1);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> quotas(1 + rng() % 12);
    for (uint64_t& quota : quotas) quota = rng() % (rng() % 4 == 0 ? 3 : 300);
    const uint64_t total = std::accumulate(quotas.begin(), quotas.end(), uint64_t{0});
    std::vector<uint64_t> given(quotas.size());
    Apportion apportion(quotas);
    for (uint64_t dealt = 0; dealt < total;) {
      const uint64_t lot = std::min(total - dealt, rng() % 40);
      const auto counts = apportion.deal(lot);
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), lot);
      dealt += lot;
      for (size_t i = 0; i < quotas.size(); ++i) {
        given[i] += counts[i];
        const double due = static_cast<double>(quotas[i]) * static_cast<double>(dealt) /
                           static_cast<double>(total);
        ASSERT_LT(static_cast<double>(given[i]), due + 1);
        // A lot of a row for each brings everybody up to its due, less the odd rows of others.
        ASSERT_GT(static_cast<double>(given[i]),
                  due - (lot >= quotas.size() ? 2 : static_cast<double>(quotas.size())));
      }
    }
    ASSERT_EQ(given, quotas);
    EXPECT_THROW(apportion.deal(1), Internal);
  }
}

std::vector<UnitRows> equal_units(uint32_t count, uint32_t rows) {
  std::vector<UnitRows> units;
  for (uint32_t i = 0; i < count; ++i) units.push_back({i, uint64_t{i} * rows, rows, rows * 10});
  return units;
}

std::vector<uint32_t> in_order(size_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

EpochOptions with_active_workers(EpochOptions options, size_t units) {
  options.shard.num_workers = active_workers_of(units, options);
  return options;
}

// With few units for a rank, it visits many all the same, none twice; its workers do not visit them
// again but for those at the boundaries, since as many of them have rows as get eight units.
TEST(RankCut, FewUnitsAreSharedByRanksNotByWorkers) {
  for (const uint32_t count : {1u, 5u, 31u, 63u, 64u, 100u, 255u, 300u, 1000u}) {
    for (const uint32_t world : {1u, 2u, 4u, 7u}) {
      for (const uint32_t workers : {1u, 2u, 3u, 8u}) {
        SCOPED_TRACE(std::to_string(count) + " units, world " + std::to_string(world) +
                     ", workers " + std::to_string(workers));
        const auto units = equal_units(count, 2048);
        uint64_t visits_of_all = 0;
        for (uint32_t rank = 0; rank < world; ++rank) {
          std::set<uint32_t> of_rank;
          uint64_t visits_of_rank = 0;
          for (uint32_t worker = 0; worker < workers; ++worker) {
            EpochOptions options;
            options.batch_size = 16;
            options.shard = {world, rank, workers, worker};
            const uint32_t active_workers = active_workers_of(count, options);
            const auto visits =
                cut_visits(units, in_order(count), with_active_workers(options, count));
            EXPECT_EQ(visits.empty(), worker >= active_workers);
            std::set<uint32_t> distinct;
            for (const Visit& visit : visits) distinct.insert(visit.unit);
            EXPECT_EQ(distinct.size(), visits.size());
            visits_of_rank += visits.size();
            of_rank.merge(distinct);
          }
          EXPECT_GE(of_rank.size(), std::min(count, 64u));
          EXPECT_LE(visits_of_rank,
                    of_rank.size() + std::min<uint64_t>(workers - 1, of_rank.size() / 8));
          visits_of_all += visits_of_rank;
        }
        // And no more is read than that asks for: about 64 for each rank, and the divided ones.
        const uint64_t of_ranks = std::max(count, std::min(128u, count) * world);
        EXPECT_LE(visits_of_all, of_ranks + world * workers);
      }
    }
  }
}

// Units in the order of visits with their rows in the store's order, without the rows that kPad
// repeats, which are chosen for each share.
struct Visited {
  std::vector<uint32_t> units;
  std::map<uint32_t, std::set<uint32_t>> rows;
  bool operator==(const Visited&) const = default;
};

Visited visited_by(const std::vector<std::vector<Visit>>& shares) {
  Visited visited;
  for (const auto& visits : shares) {
    for (const Visit& visit : visits) {
      const uint32_t end = visit.part_end - (visit.repeats_row ? 1 : 0);
      for (uint32_t row = visit.part_begin; row < end; ++row) {
        const bool is_new = visited.rows[visit.unit].insert(row % visit.unit_rows).second;
        EXPECT_TRUE(is_new) << "row " << row << " of unit " << visit.unit << " comes twice";
      }
      if (end == visit.part_begin) continue;
      if (visited.units.empty() || visited.units.back() != visit.unit) {
        visited.units.push_back(visit.unit);
      }
    }
  }
  return visited;
}

// Workers have what their rank has without them, in the same order.
TEST(RankCut, WorkersTakeStretchesOfTheirRank) {
  const TestSeed seed(3);
  std::mt19937_64 rng(seed);
  int divided = 0;
  int idle = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<UnitRows> units;
    uint64_t rows = 0;
    for (uint32_t i = 0, count = static_cast<uint32_t>(rng() % 300); i < count; ++i) {
      const auto own = static_cast<uint32_t>(1 + rng() % 90);
      units.push_back({i, rows, own, own * uint64_t{10}});
      rows += own;
    }
    const auto world = static_cast<uint32_t>(1 + rng() % 6);
    const auto workers = static_cast<uint32_t>(1 + rng() % 6);
    EpochOptions options;
    options.batch_size = static_cast<uint32_t>(1 + rng() % 100);
    options.uneven = static_cast<UnevenRows>(rng() % 3);
    options.drop_last = rng() % 2 == 0;
    auto order = in_order(units.size());
    std::shuffle(order.begin(), order.end(), rng);
    for (uint32_t rank = 0; rank < world; ++rank) {
      options.shard = {world, rank, 1, 0};
      const auto alone = visited_by({cut_visits(units, order, options)});
      std::vector<std::vector<Visit>> shares;
      for (uint32_t worker = 0; worker < workers; ++worker) {
        options.shard = {world, rank, workers, worker};
        const EpochOptions cut = with_active_workers(options, units.size());
        shares.push_back(cut_visits(units, order, cut));
        uint64_t kept = 0;
        for (const Visit& visit : shares.back()) kept += visit.row_count();
        EXPECT_EQ(kept, share_of(rows, cut, rank, worker).row_count());
        (worker < cut.shard.num_workers ? divided : idle) += worker != 0;
      }
      EXPECT_EQ(visited_by(shares), alone);
    }
  }
  EXPECT_GT(divided, 1000);
  EXPECT_GT(idle, 200);
}

// Rows of a unit that several take are neighbours in the store, so that each needs few of its
// tiles; in another epoch they have others.
TEST(RankCut, PartsAreNeighboursInTheStore) {
  const auto units = equal_units(40, 100);
  for (const uint32_t workers : {1u, 7u}) {
    for (const uint32_t world : {1u, 4u}) {
      if (workers == 1 && world == 1) continue;
      std::map<uint32_t, std::set<uint32_t>> firsts;  // of rank 0, worker 0, by unit
      for (uint64_t epoch = 0; epoch < 60; ++epoch) {
        EpochOptions options;
        options.batch_size = 7;
        options.uneven = UnevenRows::kExact;
        options.epoch = epoch;
        options.shard = {world, 0, workers, 0};
        for (const Visit& visit :
             cut_visits(units, in_order(40), with_active_workers(options, 40))) {
          EXPECT_LE(visit.part_end, visit.unit_rows);
          if (visit.row_count() < 100) firsts[visit.unit].insert(visit.part_begin);
        }
      }
      EXPECT_FALSE(firsts.empty());
      for (const auto& [unit, begins] : firsts) EXPECT_GE(begins.size(), 2u) << "unit " << unit;
    }
  }
}

// The memory that is planned for before an order is known: no visit is larger than its part, but
// for whole rows and a repeated one; none but a share's first and last is smaller.
TEST(RankCut, UnitPartsAreThoseOfTheVisits) {
  const TestSeed seed(4);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 500; ++round) {
    const auto count = static_cast<uint32_t>(1 + rng() % (round % 2 == 0 ? 20 : 300));
    const auto units = equal_units(count, static_cast<uint32_t>(1 + rng() % 500));
    EpochOptions options;
    options.shard.world_size = static_cast<uint32_t>(1 + rng() % 6);
    options.shard.num_workers = static_cast<uint32_t>(1 + rng() % 6);
    options.batch_size = static_cast<uint32_t>(1 + rng() % 40);
    options.uneven = static_cast<UnevenRows>(rng() % 3);
    const uint64_t rows = uint64_t{count} * units[0].row_count;
    const auto parts = unit_parts(rows, count, options);
    ASSERT_TRUE(std::is_sorted(parts.begin(), parts.end()));
    for (options.shard.rank = 0; options.shard.rank < options.shard.world_size;
         ++options.shard.rank) {
      for (options.shard.worker = 0; options.shard.worker < options.shard.num_workers;
           ++options.shard.worker) {
        const auto visits = cut_visits(units, in_order(count), with_active_workers(options, count));
        for (size_t i = 0; i < visits.size(); ++i) {
          const double kept = visits[i].row_count();
          const double repeated = visits[i].repeats_row ? 1 : 0;
          ASSERT_LE(kept, units[0].row_count * parts.back() + 2 + repeated);
          if (i != 0 && i + 1 != visits.size()) {
            ASSERT_GE(kept, units[0].row_count * parts.front() - 2);
          }
        }
      }
    }
  }
}

TEST(RankCut, WithoutShufflingSharesAreStretchesInStoredOrder) {
  const auto units = equal_units(10, 100);
  std::vector<uint32_t> order(10);
  std::iota(order.begin(), order.end(), 0u);
  uint64_t expected = 0;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (uint32_t worker = 0; worker < 2; ++worker) {
      EpochOptions options;
      options.shuffle = false;
      options.batch_size = 16;
      options.uneven = UnevenRows::kExact;
      options.shard = {3, rank, 2, worker};
      for (const Visit& visit : cut_visits(units, order, with_active_workers(options, 10))) {
        EXPECT_EQ(visit.first_position + visit.part_begin, expected);
        expected += visit.row_count();
      }
    }
  }
  EXPECT_EQ(expected, 1000u);
}

// As many batches on every rank, each row once and no batch empty: with batch_size 1 and rows that
// do not divide, some ranks have a batch of two rows.
TEST(RankCut, ExactBatchesAreNeverEmpty) {
  for (uint64_t rows = 1; rows <= 60; ++rows) {
    for (uint32_t world = 1; world <= 9; ++world) {
      for (uint32_t batch = 1; batch <= 6; ++batch) {
        EpochOptions options;
        options.uneven = UnevenRows::kExact;
        options.batch_size = batch;
        options.shard.world_size = world;
        const uint64_t batches = exact_batches(rows, options);
        const uint64_t short_quota = rows / world, long_quota = (rows + world - 1) / world;
        EXPECT_LE(long_quota, batches * most_batch_rows(options));
        EXPECT_GE(batches * batch + (batch == 1 ? 1 : 0), long_quota);
        if (short_quota == 0) {
          EXPECT_EQ(batches, 1u);
        } else {
          EXPECT_LE(batches, short_quota);
        }
        for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
          options.shard.num_workers = workers;
          uint64_t position = 0;
          for (uint32_t rank = 0; rank < world; ++rank) {
            uint64_t rank_batches = 0;
            for (uint32_t worker = 0; worker < workers; ++worker) {
              const Share share = share_of(rows, options, rank, worker);
              EXPECT_EQ(share.begin, position);
              position = share.end;
              rank_batches += share.batches;
              if (short_quota != 0) {
                EXPECT_GE(share.row_count(), share.batches);
              }
              if (share.batches == 0) {
                EXPECT_EQ(share.row_count(), 0u);
              }
            }
            EXPECT_EQ(rank_batches, batches);
          }
          EXPECT_EQ(position, rows);
        }
      }
    }
  }
}

TEST(RankCut, BadShapes) {
  EpochOptions options;
  options.shard.world_size = 0;
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shard = {2, 2, 1, 0};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shard = {2, 1, 0, 0};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shard = {2, 1, 3, 3};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shard = {2, 1, 3, 2};
  check_options(options);
  options.batch_size = 0;
  EXPECT_THROW(check_options(options), InvalidArgument);
}

}  // namespace
}  // namespace penstock::plan
