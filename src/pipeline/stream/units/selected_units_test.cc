#include "pipeline/stream/units/selected_units.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::least_budget;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::read_epoch;

/// Every third joinid exists.
Case gaps() {
  MemoryMatrixOptions matrix;
  matrix.rows = 6000;
  matrix.columns = 2000;
  matrix.max_nnz = 600;
  matrix.max_unit_rows = 300;
  matrix.stored_every = 3;
  std::vector<int64_t> stored;
  for (int64_t i = 0; i < matrix.rows; i += 3) stored.push_back(i);
  Case test{std::make_shared<MemoryMatrix>(matrix), {}};
  test.options.rows = RowSelection::from_sorted(stored);
  test.options.threads = 2;
  test.options.batch_size = 32;
  return test;
}

uint64_t estimate(const Case& test, const RowSelection* stored) {
  std::vector<int64_t> columns(static_cast<size_t>(test.matrix->options().columns));
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int64_t>(i);
  uint64_t bytes = 0;
  for (const auto& unit :
       selected_units(*test.matrix, *test.matrix->reader(columns), *test.options.rows, stored)) {
    bytes += unit.packed_bytes;
  }
  return bytes;
}

TEST(SelectedUnits, CellsAreNotSpreadOverRowsThatAreNotThere) {
  Case test = gaps();
  const RowSelection stored = *test.options.rows;
  const uint64_t whole = estimate(test, &stored);
  EXPECT_GT(static_cast<double>(whole), 1.5 * static_cast<double>(estimate(test, nullptr)));
  // Half of the stored rows take half of the memory.
  std::vector<int64_t> half;
  for (int64_t i = 0; i < test.matrix->options().rows; i += 6) half.push_back(i);
  test.options.rows = RowSelection::from_sorted(half);
  EXPECT_NEAR(static_cast<double>(estimate(test, &stored)), static_cast<double>(whole) / 2,
              static_cast<double>(whole) * 0.02);
}

TEST(SelectedUnits, KnownGapsDoNotSpill) {
  Case test = gaps();
  LoaderStats stats;
  test.options.memory_budget = least_budget(test);
  read_epoch(test.matrix, test.options, &stats);
  EXPECT_GT(stats.spilled_bytes, 0U);

  test.options.stored_rows = test.options.rows;
  test.options.memory_budget = least_budget(test);
  read_epoch(test.matrix, test.options, &stats);
  EXPECT_EQ(stats.spilled_bytes, 0U);
  EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
}

TEST(SelectedUnits, RowsOutsideTheMatrix) {
  Case test = gaps();
  test.options.rows = RowSelection::range(0, 6001);
  EXPECT_THROW(estimate(test, nullptr), InvalidArgument);
}

}  // namespace
}  // namespace penstock::pipeline
