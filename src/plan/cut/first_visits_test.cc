#include "plan/cut/first_visits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/epoch_plan.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

std::vector<UnitRows> units_of(size_t count, uint32_t rows) {
  std::vector<UnitRows> units;
  for (uint32_t i = 0; i < count; ++i) {
    units.push_back({i, uint64_t{i} * rows, rows, uint64_t{rows} * 5700});
  }
  return units;
}

/// (unit, row) of each row of a visit.
std::vector<std::pair<uint32_t, uint32_t>> rows_of(const Visit& visit) {
  std::vector<std::pair<uint32_t, uint32_t>> rows;
  for (uint32_t i = visit.part_begin; i < visit.part_end; ++i) {
    rows.emplace_back(visit.unit, i % visit.unit_rows);
  }
  return rows;
}

/// Each row is visited once, and the bytes of the visits are those of the units.
void expect_every_row_once(const EpochPlan& plan, uint64_t rows) {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    for (const auto& row : rows_of(plan.visit(i))) EXPECT_TRUE(seen.insert(row).second);
    bytes += plan.visit(i).packed_bytes;
  }
  EXPECT_EQ(seen.size(), rows);
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(rows) * 5700, 4.0 * kFirstVisits);
}

TEST(FirstVisits, TakeFewRowsOfManyUnits) {
  const auto units = units_of(120, 2048);
  EpochOptions options;
  for (options.seed = 0; options.seed < 50; ++options.seed) {
    const EpochPlan plan(units, options, 200);
    ASSERT_EQ(plan.visit_count(), 120 + kFirstVisits);
    std::set<uint32_t> first;
    for (size_t i = 0; i < kFirstVisits; ++i) {
      EXPECT_EQ(plan.visit(i).row_count(), kFirstRows);
      first.insert(plan.visit(i).unit);
      // The rest of the same unit.
      EXPECT_EQ(plan.visit(kFirstVisits + i).unit, plan.visit(i).unit);
    }
    EXPECT_EQ(first.size(), kFirstVisits);
    expect_every_row_once(plan, 120 * 2048);
  }
}

TEST(FirstVisits, TakeSeveralPartsOfFewUnits) {
  EpochOptions options;
  for (const size_t count : std::array<size_t, 4>{20, 32, 50, 63}) {
    const auto units = units_of(count, 2047);
    const size_t parts =
        std::min<size_t>((kFirstVisits + count - 1) / count, 2047 / (2 * kFirstRows));
    for (options.seed = 0; options.seed < 20; ++options.seed) {
      const EpochPlan plan(units, options, 1000);
      ASSERT_EQ(plan.visit_count(), 2 * parts * count);
      std::map<uint32_t, size_t> times;
      for (size_t i = 0; i < parts * count; ++i) {
        EXPECT_EQ(plan.visit(i).row_count(), kFirstRows);
        ++times[plan.visit(i).unit];
      }
      EXPECT_EQ(times.size(), count);
      for (const auto& [unit, number] : times) EXPECT_EQ(number, parts) << unit;
      expect_every_row_once(plan, count * 2047);
    }
  }
}

TEST(FirstVisits, AreHalfAsManyOfVeryFewUnits) {
  EpochOptions options;
  for (const size_t count : std::array<size_t, 5>{1, 3, 4, 8, 15}) {
    const auto units = units_of(count, 40'000);
    const size_t parts = (kFirstVisits / 2 + count - 1) / count;
    for (options.seed = 0; options.seed < 20; ++options.seed) {
      const EpochPlan plan(units, options, 1000);
      ASSERT_EQ(plan.visit_count(), 2 * parts * count);
      for (size_t i = 0; i < parts * count; ++i) {
        EXPECT_EQ(plan.visit(i).row_count(), 2 * kFirstRows);
        EXPECT_TRUE(plan.keeps_stored_part(i));
      }
      expect_every_row_once(plan, count * 40'000);
    }
  }
}

TEST(FirstVisits, TakeEachRowEquallyOften) {
  const auto units = units_of(40, 1024);
  std::vector<uint32_t> times(1024, 0);
  EpochOptions options;
  constexpr uint32_t kSeeds = 400, kParts = 2, kFirst = kParts * 40;
  for (options.seed = 0; options.seed < kSeeds; ++options.seed) {
    const EpochPlan plan(units, options, 60);
    for (size_t i = 0; i < kFirst; ++i) {
      for (const auto& [unit, row] : rows_of(plan.visit(i))) ++times[row];
    }
  }
  const double expected = double{kSeeds} * kFirst * kFirstRows / 1024;
  for (const uint32_t count : times) EXPECT_NEAR(count, expected, 0.12 * expected);
}

TEST(FirstVisits, StayWholeElsewhere) {
  EpochOptions options;
  EXPECT_EQ(EpochPlan(units_of(100, 100), options, 50).visit_count(), 100U);  // small units
  EXPECT_EQ(EpochPlan(units_of(16, 2048), options, 50).visit_count(), 16U);   // few cells
  EXPECT_EQ(EpochPlan(units_of(16, 2048), options, 50).bucket_count(), 1U);
  options.shard.num_workers = 2;
  EXPECT_EQ(EpochPlan(units_of(100, 2048), options, 50).visit_count(), 50U);
  options.shard = {};
  options.shuffle = false;
  EXPECT_EQ(EpochPlan(units_of(100, 2048), options, 1).visit_count(), 100U);
}

}  // namespace
}  // namespace penstock::plan
