#include "pipeline/memory/bucket_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace penstock::pipeline {
namespace {

constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kRowsPerUnit = 4;
constexpr uint32_t kUnits = 50;

// Not shuffled: every unit is a bucket with its slots in order.
plan::EpochPlan plan_of_units() {
  std::vector<plan::UnitRows> units;
  for (uint32_t i = 0; i < kUnits; ++i) {
    units.push_back(
        {.unit = i, .first_position = uint64_t{i} * kRowsPerUnit, .row_count = kRowsPerUnit});
  }
  plan::EpochOptions options;
  options.shuffle = false;
  options.batch_size = kRowsPerUnit;
  return {units, options, 1};
}

// Freed memory is reused: an epoch of many times the capacity needs no spill file and holds no
// memory at its end.
void expect_no_spill(size_t row_bytes, uint64_t capacity_bytes) {
  const plan::EpochPlan plan = plan_of_units();
  MemoryMeter meter;
  {
    BucketStore store(plan, capacity_bytes, kPageBytes, meter);
    std::vector<std::span<std::byte>> spilled;
    std::vector<PackedRowRef> rows;
    for (uint64_t slot = 0; slot < plan.row_count(); slot += kRowsPerUnit) {
      std::vector<ArrivingRow> arriving(kRowsPerUnit);
      for (uint32_t i = 0; i < kRowsPerUnit; ++i) {
        arriving[i].slot = slot + i;
        arriving[i].position = static_cast<int64_t>(slot + i);
        arriving[i].bytes = row_bytes;
      }
      store.reserve(arriving, spilled);
      for (const ArrivingRow& row : arriving) {
        std::memset(row.destination, static_cast<int>(row.slot), row_bytes);
      }
      store.rows(slot, slot + kRowsPerUnit, rows);
      for (uint32_t i = 0; i < kRowsPerUnit; ++i) {
        EXPECT_EQ(static_cast<uint8_t>(rows[i].record[row_bytes - 1]),
                  static_cast<uint8_t>(slot + i));
      }
      store.release_before(slot + kRowsPerUnit);
    }
    EXPECT_TRUE(spilled.empty());
    EXPECT_EQ(store.spilled_bytes(), 0U);
    EXPECT_LE(meter.peak(), capacity_bytes + plan.row_count() * sizeof(PackedRowRef));
  }
  EXPECT_EQ(meter.current(), 0U);
}

TEST(BucketStore, PagesOfBucketsThatLeftAreUsedAgain) {
  expect_no_spill(kPageBytes / 2, 3 * kPageBytes);
}

TEST(BucketStore, LargeRowsOfBucketsThatLeftGiveTheirMemoryBack) {
  expect_no_spill(3 * kPageBytes, 16 * kPageBytes);
}

}  // namespace
}  // namespace penstock::pipeline
