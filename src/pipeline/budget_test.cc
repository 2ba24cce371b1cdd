#include "pipeline/budget.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <string>

#include "pipeline/selected_units.h"
#include "pipeline/testing/memory_matrix.h"

namespace penstock::pipeline {
namespace {

struct Fixture {
  std::shared_ptr<testing::MemoryMatrix> matrix;
  std::shared_ptr<const format::MatrixReader> reader;
  std::vector<plan::UnitRows> units;
  plan::EpochOptions epoch;
  BudgetRequest request;

  explicit Fixture(uint64_t unit_bytes = 20000) {
    testing::MemoryMatrixOptions options;
    options.rows = 5000;
    options.max_nnz = 60;
    options.unit_bytes = unit_bytes;
    matrix = std::make_shared<testing::MemoryMatrix>(options);
    std::vector<int64_t> columns;
    for (int64_t i = 0; i < options.columns; ++i) columns.push_back(i);
    reader = matrix->reader(columns);
    units = selected_units(*matrix, *reader, RowSelection::range(0, options.rows));
    request.columns = static_cast<uint32_t>(options.columns);
  }
  BudgetSplit split(uint64_t budget) {
    request.memory_budget = budget;
    return split_budget(request, *reader, units, epoch);
  }
};

TEST(Budget, SharesAddUpAndGrowWithTheBudget) {
  Fixture fixture;
  uint32_t spread = 0;
  for (uint64_t budget = 400000; budget < 3000000; budget += 50000) {
    const BudgetSplit split = fixture.split(budget);
    EXPECT_LE(split.row_bytes + split.batch_bytes + split.units_in_flight * uint64_t{20000},
              budget);
    EXPECT_GE(2 * split.spread, spread);  // richer queues, where they come in, cost some of it
    EXPECT_GE(split.units_ahead, split.units_in_flight);
    spread = split.spread;
  }
  EXPECT_EQ(spread, fixture.units.size());  // all of it fits: one bucket
}

TEST(Budget, RefusalNamesTheLeastThatWorks) {
  for (const uint32_t batch_size : {1U, 128U, 3000U}) {
    for (const BatchLayout layout : {BatchLayout::kCsr, BatchLayout::kDense}) {
      for (const bool shuffle : {true, false}) {
        Fixture fixture;
        fixture.epoch.batch_size = batch_size;
        fixture.epoch.shuffle = shuffle;
        fixture.request.layout = layout;
        try {
          fixture.split(1000);
          ADD_FAILURE() << "no error";
        } catch (const ResourceExhausted& error) {
          const std::string text = error.what();
          const size_t at = text.find("and ");
          const uint64_t least = std::stoull(text.substr(at + 4));
          EXPECT_NO_THROW(fixture.split(least)) << text;
          EXPECT_THROW(fixture.split(least * 8 / 10), ResourceExhausted) << text;
        }
      }
    }
  }
}

TEST(Budget, SmallBudgetsLoseQueuesBeforeTheyAreRefused) {
  Fixture fixture(100000);
  const BudgetSplit rich = fixture.split(20000000);
  const BudgetSplit poor = fixture.split(700000);
  EXPECT_EQ(rich.units_in_flight, 8U);
  EXPECT_EQ(rich.batches_ahead, 16U);
  EXPECT_LT(poor.units_in_flight, rich.units_in_flight);
  EXPECT_LT(poor.batches_ahead, rich.batches_ahead);
}

}  // namespace
}  // namespace penstock::pipeline
