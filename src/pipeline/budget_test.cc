#include "pipeline/budget.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/testing/test_seed.h"
#include "pipeline/memory/batch_pool.h"
#include "pipeline/stream/units/selected_units.h"
#include "pipeline/testing/memory_matrix.h"

namespace penstock::pipeline {
namespace {

struct Fixture {
  std::shared_ptr<testing::MemoryMatrix> matrix;
  std::shared_ptr<const format::MatrixReader> reader;
  std::vector<plan::UnitRows> units;
  plan::EpochOptions epoch;
  BudgetRequest request;

  explicit Fixture(uint64_t unit_bytes = 20000, uint64_t fetched_bytes = 0) {
    testing::MemoryMatrixOptions options;
    options.rows = 5000;
    options.max_nnz = 60;
    options.unit_bytes = unit_bytes;
    options.fetched_bytes = fetched_bytes;
    matrix = std::make_shared<testing::MemoryMatrix>(options);
    std::vector<int64_t> columns;
    for (int64_t i = 0; i < options.columns; ++i) columns.push_back(i);
    reader = matrix->reader(columns);
    units = selected_units(*matrix, *reader, RowSelection::range(0, options.rows), nullptr);
    request.arrays[0].columns = static_cast<uint32_t>(options.columns);
  }
  BudgetSplit split(uint64_t budget) {
    request.memory_budget = budget;
    return split_budget(request, *reader, units, epoch);
  }
};

TEST(Budget, SharesAddUpAndGrowWithTheBudget) {
  Fixture fixture;
  uint32_t spread = 0;
  for (uint64_t budget = 450000; budget < 3000000; budget += 50000) {
    const BudgetSplit split = fixture.split(budget);
    EXPECT_LE(split.row_bytes + split.batch_bytes + split.units_in_flight * uint64_t{20000},
              budget);
    EXPECT_GE(2 * split.spread, spread);  // richer queues, where they come in, cost some of it
    spread = split.spread;
  }
  EXPECT_EQ(spread, fixture.units.size());  // all of it fits: one bucket
}

/// Returns the budget that the error for `budget` names.
uint64_t least_named(Fixture& fixture, uint64_t budget, std::string* text) {
  try {
    fixture.split(budget);
  } catch (const ResourceExhausted& error) {
    *text = error.what();
    return std::stoull(text->substr(text->find("at least ") + 9));
  }
  ADD_FAILURE() << "no error";
  return 0;
}

// Few rows hold nearly all non-zeros: a large batch is not made of those alone.
TEST(Budget, IsBoundByTheRowsThatThereAre) {
  Fixture fixture;
  fixture.units.clear();
  uint64_t first = 0;
  for (uint32_t unit = 0; unit < 10; ++unit) {
    plan::UnitRows rows;
    rows.unit = unit;
    rows.first_position = first;
    rows.row_count = unit == 5 ? 200 : 2000;
    rows.packed_bytes = uint64_t{rows.row_count} * (unit == 5 ? 180'000 : 15);
    fixture.units.push_back(rows);
    first += rows.row_count;
  }
  uint64_t packed = 0;
  for (const plan::UnitRows& unit : fixture.units) packed += unit.packed_bytes;
  const uint64_t csr = packed / fixture.request.packed_entry_bytes * 8;
  std::string text;
  for (const uint32_t batch_size : {128U, 1024U, 18'200U, 1'000'000U}) {
    fixture.epoch.batch_size = batch_size;
    for (const uint32_t chunk_rows : {0U, 64U, 5000U}) {
      fixture.epoch.chunk_rows = chunk_rows;
      fixture.epoch.chunks_per_block = 64;
      const uint64_t least = least_named(fixture, 1000, &text);
      // A batch and one in the consumer's hands, the packed rows, and small change.
      EXPECT_LT(least, 2 * csr + packed + (uint64_t{16} << 20)) << batch_size << " " << chunk_rows;
      EXPECT_NO_THROW(fixture.split(least));
    }
  }
}

TEST(Budget, RefusalNamesTheLeastThatWorks) {
  for (const uint64_t unit_bytes : {1000U, 20000U, 3000000U}) {
    for (const uint32_t batch_size : {1U, 7U, 128U, 3000U}) {
      for (const BatchLayout layout : {BatchLayout::kCsr, BatchLayout::kDense}) {
        for (const bool shuffle : {true, false}) {
          Fixture fixture(unit_bytes);
          fixture.epoch.batch_size = batch_size;
          fixture.epoch.shuffle = shuffle;
          fixture.request.arrays[0].layout = layout;
          std::string text;
          const uint64_t least = least_named(fixture, 1000, &text);
          EXPECT_NO_THROW(fixture.split(least)) << text;
          EXPECT_THROW(fixture.split(least - 1), ResourceExhausted) << text;
          EXPECT_EQ(least_named(fixture, least - 1, &text), least);
          EXPECT_EQ(least_named(fixture, least / 2, &text), least);
          // The size that people will type is enough as well.
          const size_t at = text.rfind('(');
          size_t digits = 0;
          const double told = std::stod(text.substr(at + 1), &digits);
          const std::string unit = text.substr(at + 1 + digits, 4);
          const double scale = unit == " KiB" ? 1024.0 : unit == " MiB" ? 1048576.0 : 1073741824.0;
          EXPECT_NO_THROW(fixture.split(static_cast<uint64_t>(told * scale))) << text;
          EXPECT_LE(told, static_cast<double>(least) / scale + 0.1) << text;
          EXPECT_LT(told, 1024) << text;
        }
      }
    }
  }
}

TEST(Budget, TheLeastIsTheSameForEveryOrderAndRank) {
  for (const auto uneven : {UnevenRows::kDrop, UnevenRows::kPad, UnevenRows::kExact}) {
    for (const uint32_t batch_size : {1U, 50U, 700U}) {
      for (const uint32_t world_size : {1U, 3U, 8U}) {
        Fixture fixture(1000);
        fixture.epoch.batch_size = batch_size;
        fixture.epoch.shard.world_size = world_size;
        fixture.epoch.uneven = uneven;
        std::string text;
        const uint64_t least = least_named(fixture, 1, &text);
        uint64_t most_needed = 0;
        for (uint64_t number = 0; number < 40; ++number) {
          const TestSeed seed(number);
          fixture.epoch.seed = seed;
          fixture.epoch.shard.rank = static_cast<uint32_t>(seed % world_size);
          const BudgetSplit split = fixture.split(least);
          const plan::EpochPlan plan(fixture.units, fixture.epoch, split.spread);
          const uint64_t peak = plan.occupancy(split.units_in_flight, split.page_bytes).peak_bytes;
          EXPECT_LE(peak, split.row_bytes);
          most_needed = std::max(most_needed, peak + least - split.row_bytes);
        }
        EXPECT_GE(most_needed, least / 2) << "overstated: " << least;
      }
    }
  }
}

/// Returns the block that the pool takes for the ids, positions and values of a dense batch.
uint64_t dense_batch(const Fixture& fixture) {
  return BatchPool::block_bytes(fixture.epoch.batch_size *
                                (2 * sizeof(int64_t) + fixture.request.arrays[0].columns *
                                                           fixture.request.arrays[0].value_bytes));
}

// A plan that forgets one batch, or counts one too many, is off by more than all small change.
TEST(Budget, EveryBatchHasItsMemory) {
  constexpr uint64_t kUnit = 20000, kSmallChange = 60000;
  Fixture fixture(kUnit);
  fixture.epoch.batch_size = 1000;
  fixture.request.arrays[0].layout = BatchLayout::kDense;
  const uint64_t batch = dense_batch(fixture);
  ASSERT_GT(batch, 5 * kSmallChange);
  std::string text;
  const uint64_t least = least_named(fixture, 1000, &text);
  for (const uint64_t tenths : {10U, 12U, 15U, 20U, 30U, 50U, 80U, 150U, 300U}) {
    const uint64_t budget = least * tenths / 10;
    const BudgetSplit split = fixture.split(budget);
    const uint64_t batches = split.batches_ahead + 1;  // the consumer holds one
    EXPECT_GE(split.batch_bytes, batches * batch) << tenths;
    EXPECT_LE(split.batch_bytes, batches * batch + kSmallChange) << tenths;
    const uint64_t planned = split.row_bytes + batches * batch + split.units_in_flight * kUnit;
    EXPECT_LE(planned, budget) << tenths;
    EXPECT_GE(planned + kSmallChange, budget) << tenths;
  }
}

TEST(Budget, EveryBatchHasItsMemoryWhereRowsAreReadOneByOne) {
  testing::MemoryMatrixOptions options;
  options.rows = 5000;
  options.addresses_rows = true;
  const auto matrix = std::make_shared<testing::MemoryMatrix>(options);
  Fixture fixture;
  fixture.epoch.batch_size = 1000;
  fixture.request.arrays[0].layout = BatchLayout::kDense;
  const auto reader = matrix->reader(std::vector<int64_t>{1, 2, 3});
  const auto rows = reader->row_reader(RowSelection::range(0, options.rows));
  const auto split_of = [&](uint64_t budget) {
    fixture.request.memory_budget = budget;
    return split_row_budget(fixture.request, *rows, 5000, fixture.epoch, 4);
  };
  const uint64_t batch = dense_batch(fixture);
  for (const uint64_t most_batches : {2U, 3U, 8U, 20U, 60U}) {
    const RowBudgetSplit split = split_of(most_batches * batch * 3 / 2);
    const uint64_t batches = split.batches_ahead + 1;  // the consumer holds one
    EXPECT_GE(split.batch_bytes, batches * batch);
    EXPECT_LE(split.readers * split.reader_bytes + batches * batch, fixture.request.memory_budget);
  }
  const uint64_t needed = split_of(100 * batch).reader_bytes + 2 * batch;
  EXPECT_THROW(split_of(needed - 1), ResourceExhausted);
}

TEST(Budget, AnEmptySelectionNeedsNothing) {
  Fixture fixture;
  fixture.units.clear();
  EXPECT_NO_THROW(fixture.split(1));
}

TEST(Budget, SmallBudgetsLoseQueuesBeforeTheyAreRefused) {
  Fixture fixture(100000);
  const BudgetSplit rich = fixture.split(40000000);
  const BudgetSplit poor = fixture.split(700000);
  EXPECT_EQ(rich.units_in_flight, 8U);
  EXPECT_EQ(rich.batches_ahead, 16U);
  EXPECT_LT(poor.units_in_flight, rich.units_in_flight);
  EXPECT_LT(poor.batches_ahead, rich.batches_ahead);
}

TEST(Budget, ARemoteStoreIsReadFarAheadInTheSameMemory) {
  constexpr uint64_t kUnit = 20000;
  for (const uint64_t fetched : {uint64_t{200}, kUnit / 6, kUnit / 4, kUnit}) {
    Fixture near(kUnit), far(kUnit, fetched);
    for (uint64_t budget = 450000; budget < 3000000; budget += 50000) {
      const BudgetSplit file = near.split(budget);
      const BudgetSplit split = far.split(budget);
      EXPECT_EQ(split.spread, file.spread);  // the order of rows is that of a file
      EXPECT_EQ(split.row_bytes, file.row_bytes);
      EXPECT_EQ(split.units_in_flight, file.units_in_flight);
      EXPECT_EQ(file.units_ahead, 0U);
      if (split.units_in_flight < 2) continue;
      EXPECT_LE(split.units_decoding * kUnit + split.units_ahead * fetched,
                split.units_in_flight * kUnit);
      EXPECT_GE(split.units_decoding, std::min(split.units_in_flight - 1, 2U));
      EXPECT_LE(split.units_decoding, 3U);
      // If large units leave few places, one fewer is decoded.
      if (split.units_in_flight == 4 && fetched == kUnit / 6) {
        EXPECT_EQ(split.units_decoding, 2U);
        EXPECT_EQ(split.units_ahead, 12U);
      }
      if (split.units_in_flight == 8 && fetched <= kUnit / 4) {
        EXPECT_EQ(split.units_decoding, 3U);
        EXPECT_GE(split.units_ahead, 20U);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::pipeline
