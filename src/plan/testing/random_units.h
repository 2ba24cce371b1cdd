#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/epoch_plan.h"

// Units of random sizes, for the tests of this folder.

namespace penstock::plan::testing {

using Rng = std::mt19937_64;

/// Units of 1 to `max_rows` rows, 100 to 149 bytes each, one after the other. Their numbers have
/// gaps.
inline std::vector<UnitRows> random_units(Rng& rng, size_t count, uint32_t max_rows) {
  std::vector<UnitRows> units;
  uint64_t position = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto rows = static_cast<uint32_t>(1 + rng() % max_rows);
    units.push_back({static_cast<uint32_t>(i * 3 + 1), position, rows, rows * (100 + rng() % 50)});
    position += rows;
  }
  return units;
}

inline uint64_t total_rows(const std::vector<UnitRows>& units) {
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  return rows;
}

}  // namespace penstock::plan::testing
