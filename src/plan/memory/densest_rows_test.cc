#include "plan/memory/densest_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"

namespace penstock::plan {
namespace {

UnitRows unit_of(uint32_t rows, uint64_t bytes) {
  UnitRows unit;
  unit.row_count = rows;
  unit.packed_bytes = bytes;
  return unit;
}

// Beside the plain way: a number for every row, sorted, summed.
TEST(DensestRows, AreTheDensestOfAllRows) {
  const TestSeed seed(1);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<UnitRows> units;
    std::vector<double> rows;
    for (size_t i = 1 + random() % 8; i > 0; --i) {
      units.push_back(unit_of(static_cast<uint32_t>(1 + random() % 20), random() % 10'000));
      rows.insert(rows.end(), units.back().row_count,
                  static_cast<double>(units.back().packed_bytes) / units.back().row_count);
    }
    std::sort(rows.begin(), rows.end(), std::greater<>());
    for (size_t count = 1; count <= rows.size() + 3; ++count) {
      const size_t there = std::min(count, rows.size());
      double sum = std::accumulate(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(there), 0.0);
      sum += static_cast<double>(count - there) * rows[0];
      ASSERT_NEAR(densest_row_bytes(units, count) * static_cast<double>(count), sum, 1e-6 * sum);
    }
  }
  EXPECT_EQ(densest_row_bytes({}, 5), 0);
}

}  // namespace
}  // namespace penstock::plan
