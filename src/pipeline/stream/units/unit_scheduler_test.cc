#include "pipeline/stream/units/unit_scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "pipeline/stream/units/selected_units.h"
#include "pipeline/testing/memory_matrix.h"

namespace penstock::pipeline {
namespace {

using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;

// As many units as may be decoded and ahead are in flight, however large the visit limit. Each
// finished unit makes room for one more.
void expect_in_flight(uint32_t units_decoding, uint32_t units_ahead) {
  const auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  std::vector<int64_t> columns(static_cast<size_t>(matrix->options().columns));
  std::iota(columns.begin(), columns.end(), int64_t{0});
  const auto reader = matrix->reader(columns);
  const RowSelection rows = RowSelection::range(0, matrix->options().rows);
  const auto units = selected_units(*matrix, *reader, rows, nullptr);
  const plan::EpochPlan plan(units, {}, 4);
  MemoryMeter meter;
  BucketStore store(plan, uint64_t{1} << 24, 4096, meter);
  UnitScheduler scheduler(plan, *reader, rows, store, units_decoding, units_ahead, 0, meter);
  scheduler.set_visit_limit(plan.visit_count());

  std::vector<UnitFlight*> flights;
  while (UnitFlight* const flight = scheduler.begin_fetch()) flights.push_back(flight);
  ASSERT_LT(flights.size(), plan.visit_count());
  EXPECT_EQ(flights.size(), units_decoding + units_ahead);

  scheduler.fetch(*flights.front());
  scheduler.end_fetch(flights.front());
  while (const auto task = scheduler.take_task()) {
    scheduler.run(*task);
    scheduler.finish_task(*task);
  }
  EXPECT_EQ(scheduler.visits_done(), 1U);
  EXPECT_NE(scheduler.begin_fetch(), nullptr);
  EXPECT_EQ(scheduler.begin_fetch(), nullptr);
}

TEST(UnitScheduler, NoMoreUnitsAreInFlightThanMayBe) {
  expect_in_flight(1, 0);
  expect_in_flight(3, 0);
  expect_in_flight(2, 4);
}

}  // namespace
}  // namespace penstock::pipeline
