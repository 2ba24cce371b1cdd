// Epochs of shuffled chunks, over random shapes, read through the whole pipeline.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::kAmple;
using testing::least_budget;
using testing::read_epoch;
using testing::tiny_case;

Case chunked_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  Case test = tiny_case(seed * 11);
  test.options.drop_last = false;
  test.options.order = ChunkShuffle{static_cast<uint32_t>(1 + random() % 20),
                                    static_cast<uint32_t>(1 + random() % 6)};
  return test;
}

std::vector<int64_t> sorted(std::vector<int64_t> joinids) {
  std::sort(joinids.begin(), joinids.end());
  return joinids;
}

TEST(EpochChunks, GiveEveryRowOnceForRandomShapes) {
  for (uint64_t number = 1; number <= 500; ++number) {
    const TestSeed seed(number);
    Case test = chunked_case(seed);
    const uint64_t least = least_budget(test);
    test.options.memory_budget = std::array{least, 2 * least, kAmple}[seed % 3];
    LoaderStats stats;
    const auto order = read_epoch(test.matrix, test.options, &stats);
    ASSERT_EQ(sorted(order), test.options.rows->to_vector());
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    EXPECT_EQ(stats.spilled_bytes, 0U);
    test.options.threads = 8;
    test.options.memory_budget = kAmple;
    ASSERT_EQ(read_epoch(test.matrix, test.options), order);  // nor does the budget matter

    if (stats.batches > 1) {
      test.options.first_batch = 1 + seed % (stats.batches - 1);
      const auto rest = read_epoch(test.matrix, test.options);
      ASSERT_LT(rest.size(), order.size());
      ASSERT_TRUE(std::equal(rest.rbegin(), rest.rend(), order.rbegin()));
      EpochStream stream(test.matrix, test.options);
      const auto begin = order.begin();
      ASSERT_EQ(stream.rows_before().to_vector(),
                sorted({begin, begin + static_cast<ptrdiff_t>(order.size() - rest.size())}));
    }
  }
}

TEST(EpochChunks, AreSharedAmongRanksAndWorkers) {
  for (uint64_t number = 1; number <= 100; ++number) {
    const TestSeed seed(number);
    Case test = chunked_case(seed);
    test.options.memory_budget = kAmple;
    test.options.uneven = UnevenRows::kExact;
    test.options.world_size = 1 + static_cast<uint32_t>(seed % 4);
    test.options.num_workers = 1 + static_cast<uint32_t>(seed / 4 % 3);
    std::vector<int64_t> all;
    for (test.options.rank = 0; test.options.rank < test.options.world_size; ++test.options.rank) {
      for (test.options.worker = 0; test.options.worker < test.options.num_workers;
           ++test.options.worker) {
        const auto part = read_epoch(test.matrix, test.options);
        all.insert(all.end(), part.begin(), part.end());
      }
    }
    ASSERT_EQ(sorted(all), test.options.rows->to_vector());
  }
}

}  // namespace
}  // namespace penstock::pipeline
