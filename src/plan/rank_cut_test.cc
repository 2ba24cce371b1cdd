#include "plan/rank_cut.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <numeric>
#include <random>
#include <set>

#include "plan/apportion.h"

namespace penstock::plan {
namespace {

TEST(Apportion, SharesOfEveryLotAndExactTotals) {
  std::mt19937_64 rng(1);
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

// With few units for a share, every share visits many all the same, none twice.
TEST(RankCut, FewUnitsAreShared) {
  for (const uint32_t count : {1u, 5u, 63u, 64u, 100u, 300u, 1000u}) {
    for (const uint32_t world : {1u, 2u, 4u, 7u}) {
      for (const uint32_t workers : {1u, 3u}) {
        const auto units = equal_units(count, 2048);
        std::vector<uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0u);
        uint64_t visits_of_all = 0;
        for (uint32_t rank = 0; rank < world; ++rank) {
          for (uint32_t worker = 0; worker < workers; ++worker) {
            EpochOptions options;
            options.shape = {world, rank, workers, worker};
            const auto visits = cut_visits(units, order, options);
            std::set<uint32_t> distinct;
            for (const Visit& visit : visits) distinct.insert(visit.unit);
            EXPECT_EQ(distinct.size(), visits.size());
            EXPECT_GE(visits.size(), std::min(count, 64u)) << count << " " << world;
            visits_of_all += visits.size();
          }
        }
        // And no more is read than that asks for: about 64 for each share, and the divided ones.
        const uint32_t shares = world * workers;
        EXPECT_LE(visits_of_all, std::max(count, std::min(128u, count) * shares) + shares);
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
      options.uneven = Uneven::kExact;
      options.shape = {3, rank, 2, worker};
      for (const Visit& visit : cut_visits(units, order, options)) {
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
        options.uneven = Uneven::kExact;
        options.batch_size = batch;
        options.shape.world_size = world;
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
          options.shape.num_workers = workers;
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
  options.shape.world_size = 0;
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shape = {2, 2, 1, 0};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shape = {2, 1, 0, 0};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shape = {2, 1, 3, 3};
  EXPECT_THROW(check_options(options), InvalidArgument);
  options.shape = {2, 1, 3, 2};
  check_options(options);
  options.batch_size = 0;
  EXPECT_THROW(check_options(options), InvalidArgument);
}

}  // namespace
}  // namespace penstock::plan
