#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

// Epochs that start at first_batch.

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::least_budget;
using testing::random_case;
using testing::read_epoch;

TEST(EpochResume, GoesOnWhereItWasForRandomShapes) {
  for (uint64_t number = 1; number <= 300; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = random_case(seed * 31);
    test.options.threads = seed % 2 == 0 ? 1 : 3;
    if (seed % 3 == 0) {
      test.options.world_size = 1 + static_cast<uint32_t>(random() % 4);
      test.options.rank = static_cast<uint32_t>(random() % test.options.world_size);
      test.options.num_workers = 1 + static_cast<uint32_t>(random() % 3);
      test.options.worker = static_cast<uint32_t>(random() % test.options.num_workers);
      test.options.uneven = static_cast<UnevenRows>(random() % 3);
    }
    const uint64_t least = least_budget(test);
    test.options.memory_budget = least + random() % 3 * least / 2;
    LoaderStats whole_stats;
    std::vector<size_t> repeated;
    const auto whole = read_epoch(test.matrix, test.options, &whole_stats, &repeated);
    ASSERT_LE(repeated.size(), test.options.uneven == UnevenRows::kPad ? 1U : 0U);
    const uint64_t batches = whole_stats.batches;
    for (const uint64_t first : {uint64_t{1}, batches / 2, batches - 1, batches}) {
      if (first == 0 || first > batches) continue;
      test.options.first_batch = first;
      LoaderStats stats;
      const auto rest = read_epoch(test.matrix, test.options, &stats);
      ASSERT_LE(rest.size(), whole.size());
      const std::vector<int64_t> expected(whole.end() - static_cast<ptrdiff_t>(rest.size()),
                                          whole.end());
      ASSERT_EQ(rest, expected) << "from batch " << first << " of " << batches;
      ASSERT_EQ(stats.batches, batches - first);
      ASSERT_EQ(stats.cells, rest.size());
      ASSERT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
      ASSERT_EQ(stats.spilled_bytes, 0U);
      std::vector<int64_t> before(whole.begin(), whole.end() - static_cast<ptrdiff_t>(rest.size()));
      for (const size_t place : repeated) {
        if (place < before.size()) before.erase(before.begin() + static_cast<ptrdiff_t>(place));
      }
      std::sort(before.begin(), before.end());
      EpochStream stream(test.matrix, test.options);
      ASSERT_EQ(stream.rows_before().to_vector(), before);
    }
  }
}

// Only the units are read that still have rows to give.
TEST(EpochResume, ReadsWhatIsLeft) {
  testing::MemoryMatrixOptions matrix;
  matrix.rows = 20'000;
  matrix.max_unit_rows = 200;
  Case test = random_case(5);
  test.matrix = std::make_shared<testing::MemoryMatrix>(matrix);
  test.options = {};
  test.options.rows = RowSelection::range(0, matrix.rows);
  test.options.batch_size = 64;
  test.options.memory_budget = least_budget(test) * 2;
  LoaderStats whole;
  read_epoch(test.matrix, test.options, &whole);
  ASSERT_LT(whole.units_in_shuffle, whole.units / 4);
  test.options.first_batch = whole.batches * 3 / 4;
  LoaderStats rest;
  read_epoch(test.matrix, test.options, &rest);
  EXPECT_LE(rest.units, whole.units / 4 + whole.units_in_shuffle + 2);
  EXPECT_LT(rest.bytes_needed, whole.bytes_needed * 2 / 3);
}

TEST(EpochResume, BeyondTheEpochIsRefused) {
  Case test = random_case(9);
  LoaderStats stats;
  read_epoch(test.matrix, test.options, &stats);
  test.options.first_batch = stats.batches + 1;
  EXPECT_THROW(read_epoch(test.matrix, test.options), InvalidArgument);
}

}  // namespace
}  // namespace penstock::pipeline
