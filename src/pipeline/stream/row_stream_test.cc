#include "pipeline/stream/row_stream.h"

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
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::read_epoch;
using testing::tiny_case;

/// The same case with a global order; `by_rows`: from a store that can address rows.
Case global_case(Case test, bool by_rows) {
  MemoryMatrixOptions matrix = test.matrix->options();
  matrix.addresses_rows = by_rows;
  test.matrix = std::make_shared<MemoryMatrix>(matrix);
  test.options.order = GlobalShuffle{};
  return test;
}

void choose_share(Case& test, std::mt19937_64& random) {
  test.options.world_size = 1 + static_cast<uint32_t>(random() % 4);
  test.options.rank = static_cast<uint32_t>(random() % test.options.world_size);
  test.options.num_workers = 1 + static_cast<uint32_t>(random() % 3);
  test.options.worker = static_cast<uint32_t>(random() % test.options.num_workers);
  test.options.uneven = static_cast<UnevenRows>(random() % 3);
}

std::vector<int64_t> sorted(std::vector<int64_t> joinids) {
  std::sort(joinids.begin(), joinids.end());
  return joinids;
}

TEST(RowStream, OneOrderHoweverRowsAreReadForRandomShapes) {
  for (uint64_t number = 1; number <= 400; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case by_rows = global_case(tiny_case(seed), true);
    Case by_units = global_case(tiny_case(seed), false);
    if (seed % 2 == 0) {
      choose_share(by_rows, random);
      by_units.options = by_rows.options;
    }
    by_rows.options.threads = std::array{1U, 2U, 8U}[seed % 3];
    LoaderStats stats;
    const auto order = read_epoch(by_rows.matrix, by_rows.options, &stats);
    by_units.options.threads = 2;
    // From one block for all rows down to the least memory.
    const uint64_t least = least_budget(by_units);
    by_units.options.memory_budget =
        std::array{least, least + least / 8, 2 * least, kAmple}[seed % 4];
    LoaderStats unit_stats;
    ASSERT_EQ(read_epoch(by_units.matrix, by_units.options, &unit_stats), order);
    ASSERT_LE(unit_stats.peak_buffered_bytes, by_units.options.memory_budget);
    ASSERT_EQ(unit_stats.spilled_bytes, 0U);
    ASSERT_EQ(make_stream(by_rows.matrix, by_rows.options)->fingerprint(),
              make_stream(by_units.matrix, by_units.options)->fingerprint());
    if (seed % 2 != 0 && !by_rows.options.drop_last) {
      ASSERT_EQ(sorted(order), by_rows.options.rows->to_vector());
    }
    ASSERT_EQ(stats.bytes_read, stats.bytes_needed);
    by_rows.options.threads = 3;
    ASSERT_EQ(read_epoch(by_rows.matrix, by_rows.options), order);
    ++by_rows.options.epoch;
    if (order.size() >= 20) {
      ASSERT_NE(read_epoch(by_rows.matrix, by_rows.options), order);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RowStream, OverANetworkTheCheaperWayIsTaken) {
  for (uint64_t number = 1; number <= 20; ++number) {
    const TestSeed seed(number);
    Case test = global_case(tiny_case(seed), true);
    test.options.drop_last = false;
    test.options.min_batch = 1;
    const auto order = read_epoch(test.matrix, test.options);
    if (order.empty()) continue;
    const auto units_read = [&](uint64_t request_bytes, uint64_t budget) {
      MemoryMatrixOptions matrix = test.matrix->options();
      matrix.request_bytes = request_bytes;
      LoaderOptions options = test.options;
      options.memory_budget = budget;
      LoaderStats stats;
      EXPECT_EQ(read_epoch(std::make_shared<MemoryMatrix>(matrix), options, &stats), order);
      return stats.units;
    };
    EXPECT_EQ(units_read(0, kAmple), 0U) << "a row is no request";
    EXPECT_GT(units_read(uint64_t{1} << 40, kAmple), 0U) << "units are, and fewer";
    EXPECT_EQ(units_read(1, least_budget(global_case(tiny_case(seed), true)) + 100), 0U)
        << "there is no memory for units";
  }
}

TEST(RowStream, GoesOnWhereItWasForRandomShapes) {
  for (uint64_t number = 1; number <= 200; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = global_case(tiny_case(seed * 31), seed % 4 != 0);
    test.options.threads = seed % 2 == 0 ? 1 : 3;
    choose_share(test, random);
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
      std::vector<int64_t> before(whole.begin(), whole.end() - static_cast<ptrdiff_t>(rest.size()));
      for (const size_t place : repeated) {
        if (place < before.size()) before.erase(before.begin() + static_cast<ptrdiff_t>(place));
      }
      const auto stream = make_stream(test.matrix, test.options);
      ASSERT_EQ(stream->rows_before().to_vector(), sorted(before));
      ASSERT_EQ(stream->row_count_before(), before.size());
    }
    test.options.first_batch = batches + 1;
    ASSERT_THROW(make_stream(test.matrix, test.options), InvalidArgument);
  }
}

// Rows of any size in small batches may exceed their mean by more than any margin; batches of some
// rows may not.
TEST(RowStream, KeepsToItsBudget) {
  for (uint64_t number = 1; number <= 36; ++number) {
    const TestSeed seed(number);
    MemoryMatrixOptions matrix;
    matrix.seed = seed;
    matrix.rows = 2000;
    matrix.columns = 700;
    matrix.max_nnz = 200;
    matrix.addresses_rows = true;
    Case test{std::make_shared<MemoryMatrix>(matrix), {}};
    test.options.order = GlobalShuffle{};
    test.options.batch_size = std::array{32U, 100U, 333U}[seed % 3];
    test.options.layout = seed % 2 == 0 ? BatchLayout::kCsr : BatchLayout::kDense;
    const uint64_t least = least_budget(test);
    test.options.threads = std::array{1U, 2U, 8U}[seed / 3 % 3];
    test.options.memory_budget = std::array{least, least * 3 / 2, 3 * least, 9 * least}[seed % 4];
    const RowStream stream(test.matrix, test.options);
    EXPECT_LE(stream.stats().planned_bytes, test.options.memory_budget);
    EXPECT_LE(stream.budget().readers, test.options.threads);
    LoaderStats stats;
    const auto order = read_epoch(test.matrix, test.options, &stats);
    EXPECT_EQ(order.size(), 2000U);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RowStream, RefusesAStoreWhoseRowsCannotBeAddressed) {
  EXPECT_THROW(RowStream(std::make_shared<MemoryMatrix>(MemoryMatrixOptions{}), LoaderOptions{}),
               InvalidArgument);
}

// Read by units, an epoch reads the store once for each block that fits in memory.
TEST(GlobalShuffleOfUnits, ReadsLessWithMoreMemory) {
  MemoryMatrixOptions matrix;
  matrix.rows = 10'000;
  matrix.columns = 400;
  matrix.max_nnz = 200;
  matrix.max_unit_rows = 200;
  Case test{std::make_shared<MemoryMatrix>(matrix), {}};
  test.options.order = GlobalShuffle{};
  LoaderStats all;
  test.options.memory_budget = kAmple;
  read_epoch(test.matrix, test.options, &all);
  EXPECT_EQ(all.bytes_read, all.bytes_needed);
  EXPECT_EQ(all.planned_bytes_read, all.bytes_needed);
  EXPECT_EQ(all.units_in_shuffle, all.units);
  uint64_t before = all.bytes_read;
  for (const uint64_t part : {2U, 3U}) {
    test.options.memory_budget = all.peak_buffered_bytes / part;
    LoaderStats stats;
    read_epoch(test.matrix, test.options, &stats);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    EXPECT_EQ(stats.bytes_read, stats.planned_bytes_read);
    EXPECT_GT(stats.bytes_read, before);
    // Two blocks are in memory, and less than half of it is for anything else.
    EXPECT_LE(stats.bytes_read, all.bytes_read * (4 * part + 2));
    before = stats.bytes_read;
  }
}

}  // namespace
}  // namespace penstock::pipeline
