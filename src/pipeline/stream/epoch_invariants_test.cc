// Tests that hold for every epoch, over thousands of random shapes: matrices, selections, columns,
// options, budgets from the least up, ranks and workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::kAmple;
using testing::least_budget;
using testing::read_epoch;
using testing::tiny_case;

using VisitPlace = std::tuple<uint32_t, uint32_t, uint32_t>;

struct Planned {
  std::vector<VisitPlace> visits;
  std::vector<uint64_t> batches;
  friend bool operator==(const Planned&, const Planned&) = default;
};

/// The rows of an epoch in their order, and the ends of its batches.
Planned planned(const Case& test) {
  const EpochSetup setup = make_epoch_setup(test.matrix, test.options);
  const plan::EpochPlan plan(setup.units, setup.epoch, setup.budget.spread);
  Planned result;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    const plan::Visit& visit = plan.visit(i);
    result.visits.emplace_back(visit.unit, visit.part_begin, visit.part_end);
  }
  for (uint64_t i = 0; i <= plan.batch_count(); ++i) result.batches.push_back(plan.batch_begin(i));
  return result;
}

std::vector<int64_t> sorted(std::vector<int64_t> joinids) {
  std::sort(joinids.begin(), joinids.end());
  return joinids;
}

void expect_every_row_once(const Case& test, const std::vector<int64_t>& order) {
  const auto expected = test.options.rows->to_vector();
  const auto got = sorted(order);
  if (!test.options.drop_last) {
    EXPECT_EQ(got, expected);
  } else {
    EXPECT_EQ(got.size(), expected.size() / test.options.batch_size * test.options.batch_size);
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), got.begin(), got.end()));
    EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end());
  }
  if (is_ordered(test)) {
    EXPECT_TRUE(std::equal(order.begin(), order.end(), expected.begin()));
  }
}

void expect_ranks_share(Case test, uint64_t seed) {
  test.options.drop_last = false;
  test.options.uneven = UnevenRows::kExact;
  test.options.memory_budget = kAmple;
  test.options.world_size = 1 + static_cast<uint32_t>(seed % 4);
  test.options.num_workers = 1 + static_cast<uint32_t>(seed / 4 % 3);
  std::vector<int64_t> all;
  for (uint32_t rank = 0; rank < test.options.world_size; ++rank) {
    for (uint32_t worker = 0; worker < test.options.num_workers; ++worker) {
      test.options.rank = rank;
      test.options.worker = worker;
      const auto part = read_epoch(test.matrix, test.options);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  EXPECT_EQ(sorted(all), test.options.rows->to_vector());
}

TEST(EpochInvariants, OfThousandsOfShapes) {
  const uint64_t shapes = test_rounds(3000);
  for (uint64_t number = 1; number <= shapes; ++number) {
    const TestSeed seed(number);
    Case test = tiny_case(seed);
    const uint64_t least = least_budget(test);
    test.options.memory_budget = std::array{least, least + least / 8, 2 * least, kAmple}[seed % 4];

    test.options.threads = 1;
    LoaderStats stats;
    const auto order = read_epoch(test.matrix, test.options, &stats);
    expect_every_row_once(test, order);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    EXPECT_EQ(stats.spilled_bytes, 0U);

    test.options.threads = 8;
    EXPECT_EQ(read_epoch(test.matrix, test.options, &stats), order);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);

    const Planned plan = planned(test);
    Case other = test;
    other.options.memory_budget = seed % 4 == 0 ? kAmple : least;
    EXPECT_EQ(planned(other), plan);

    ++test.options.epoch;
    test.options.threads = 2;
    const auto next = read_epoch(test.matrix, test.options);
    if (is_ordered(test)) {
      EXPECT_EQ(next, order);
    } else if (order.size() >= 20) {
      EXPECT_NE(next, order);
    }
    if (seed % 16 == 0) expect_ranks_share(test, seed / 16);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::pipeline
