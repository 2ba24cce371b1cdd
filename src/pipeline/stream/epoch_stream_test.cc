#include "pipeline/stream/epoch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::kAmple;
using testing::least_budget;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::random_case;
using testing::read_epoch;

TEST(EpochStream, EverySelectedRowOnceForRandomShapes) {
  for (uint64_t number = 1; number <= 200; ++number) {
    const TestSeed seed(number);
    Case test = random_case(seed);
    const uint64_t least = least_budget(test);
    test.options.memory_budget = seed % 3 == 0 ? kAmple : least + (seed % 3 - 1) * least;
    LoaderStats stats;
    test.options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(seed % 3)];
    const auto order = read_epoch(test.matrix, test.options, &stats);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    auto expected = test.options.rows->to_vector();
    if (test.options.drop_last) {
      ASSERT_EQ(order.size(), expected.size() / test.options.batch_size * test.options.batch_size);
      ASSERT_TRUE(std::includes(expected.begin(), expected.end(), sorted.begin(), sorted.end()));
      ASSERT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
    } else {
      ASSERT_EQ(sorted, expected);
    }
    if (is_ordered(test) && !test.options.drop_last) {
      ASSERT_EQ(order, expected);
    }
    ASSERT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    ASSERT_EQ(stats.spilled_bytes, 0U);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochStream, TheOrderIsTheSameForAnyNumberOfThreads) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    Case test = random_case(seed * 7919);
    if (seed % 2 == 0) test.options.memory_budget = least_budget(test) * 3 / 2;
    const auto one = read_epoch(test.matrix, test.options);
    test.options.threads = 8;
    ASSERT_EQ(read_epoch(test.matrix, test.options), one);
    if (one.size() < 20 || is_ordered(test)) continue;
    ++test.options.epoch;
    ASSERT_NE(read_epoch(test.matrix, test.options), one);
  }
}

TEST(EpochStream, ALowEstimateSpillsAndStaysExact) {
  MemoryMatrixOptions matrix;
  matrix.rows = 20000;
  matrix.columns = 400;
  matrix.max_nnz = 300;
  matrix.max_unit_rows = 400;
  matrix.estimate_factor = 0.2;
  matrix.giant_row_every = 500;
  Case test{std::make_shared<MemoryMatrix>(matrix), {}};
  test.options.threads = 2;
  test.options.memory_budget = 3000000;
  LoaderStats stats;
  auto order = read_epoch(test.matrix, test.options, &stats);
  EXPECT_GT(stats.spilled_bytes, 0U);
  EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, RowSelection::range(0, 20000).to_vector());

  ::setenv("TMPDIR", "/does-not-exist", 1);
  EXPECT_THROW(read_epoch(test.matrix, test.options), ResourceExhausted);
  ::unsetenv("TMPDIR");
}

TEST(EpochStream, SlowConsumerKeepsWithinItsRing) {
  MemoryMatrixOptions matrix;
  matrix.rows = 3000;
  LoaderOptions options;
  options.batch_size = 64;
  options.threads = 8;
  options.memory_budget = 300000;
  EpochStream stream(std::make_shared<MemoryMatrix>(matrix), options);
  while (auto batch = stream.next()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(stream.stats().peak_buffered_bytes, options.memory_budget);
  EXPECT_EQ(stream.stats().cells, 3000U);
}

}  // namespace
}  // namespace penstock::pipeline
