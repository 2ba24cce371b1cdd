// Epochs of drawn rows, over random shapes, read through the whole pipeline.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::kAmple;
using testing::least_budget;
using testing::read_epoch;
using testing::tiny_case;

void draw(Case& test, std::mt19937_64& random) {
  const uint64_t rows = test.options.rows->size();
  RowSampling sampling;
  sampling.replacement = random() % 3 != 0;
  uint64_t positive = rows;
  if (rows != 0 && random() % 4 != 0) {
    std::vector<double> weights(rows);
    for (double& weight : weights) {
      weight = std::array{0.0, 1.0, 1.0, 40.0}[random() % 4] + (random() % 50 == 0 ? 300 : 0);
    }
    weights[random() % rows] = 1;
    sampling.weights = RowWeights::from_values(weights);
    positive = sampling.weights.positive_count();
  }
  sampling.samples = rows == 0              ? 0
                     : sampling.replacement ? random() % (4 * rows)
                                            : random() % (positive + 1);
  test.options.order = sampling;
}

std::vector<int64_t> sorted(std::vector<int64_t> joinids) {
  std::sort(joinids.begin(), joinids.end());
  return joinids;
}

/// Returns the rows that the sampler drew, from its plan.
std::vector<int64_t> drawn(const Case& test) {
  Case whole = test;
  whole.options.drop_last = false;
  whole.options.memory_budget = kAmple;
  const EpochSetup setup = make_epoch_setup(whole.matrix, whole.options);
  std::vector<int64_t> joinids;
  for (const plan::UnitRows& unit : setup.units) {
    plan::Visit visit;
    visit.unit = unit.unit;
    visit.first_position = unit.first_position;
    visit.unit_rows = unit.row_count;
    visit.selected_rows = unit.selected_rows();
    visit.repeat = unit.repeat;
    for (const uint32_t row : setup.sampler->rows(visit)) {
      joinids.push_back(setup.rows.at(unit.first_position + row));
    }
  }
  return sorted(joinids);
}

TEST(EpochSampling, GivesWhatWasDrawnForRandomShapes) {
  for (uint64_t number = 1; number <= 600; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = tiny_case(seed * 7);
    draw(test, random);
    const uint64_t least = least_budget(test);
    test.options.memory_budget = std::array{least, 2 * least, kAmple}[seed % 3];
    LoaderStats stats;
    const auto order = read_epoch(test.matrix, test.options, &stats);
    const auto expected = drawn(test);
    if (!test.options.drop_last) {
      ASSERT_EQ(sorted(order), expected);
    } else {
      ASSERT_EQ(order.size(), expected.size() / test.options.batch_size * test.options.batch_size);
      const auto got = sorted(order);
      ASSERT_TRUE(std::includes(expected.begin(), expected.end(), got.begin(), got.end()));
    }
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    EXPECT_EQ(stats.spilled_bytes, 0U);
    test.options.threads = 8;
    ASSERT_EQ(read_epoch(test.matrix, test.options), order);
    const auto& drawn = std::get<RowSampling>(test.options.order);
    if (drawn.replacement && drawn.samples > 30 && test.options.rows->size() > 3 &&
        test.options.batch_size < 10) {
      ++test.options.epoch;
      test.options.memory_budget = kAmple;  // what is drawn, and so the least, is another
      EXPECT_NE(read_epoch(test.matrix, test.options), order);
    }
  }
}

TEST(EpochSampling, GoesOnWhereItWas) {
  for (uint64_t number = 1; number <= 100; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = tiny_case(seed * 13);
    draw(test, random);
    test.options.world_size = 1 + static_cast<uint32_t>(random() % 3);
    test.options.rank = static_cast<uint32_t>(random() % test.options.world_size);
    test.options.uneven = static_cast<UnevenRows>(random() % 3);
    LoaderStats stats;
    const auto whole = read_epoch(test.matrix, test.options, &stats);
    if (stats.batches < 2) continue;
    test.options.first_batch = 1 + random() % (stats.batches - 1);
    const auto rest = read_epoch(test.matrix, test.options);
    ASSERT_LE(rest.size(), whole.size());
    ASSERT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
  }
}

// A row that comes again in the same bucket takes no memory again: all draws of one row fit where
// they could not as copies.
TEST(EpochSampling, RepeatsInABucketAreReferences) {
  testing::MemoryMatrixOptions shape;
  shape.rows = 40;
  shape.columns = 500;
  shape.max_nnz = 400;
  shape.max_unit_rows = 40;
  Case test{std::make_shared<testing::MemoryMatrix>(shape), {}};
  test.options.rows = RowSelection::range(0, shape.rows);
  test.options.memory_budget = kAmple;
  test.options.threads = 1;
  test.options.batch_size = 4;
  std::vector<double> weights(40, 0.0);
  weights[3] = 1;
  RowSampling sampling;
  sampling.weights = RowWeights::from_values(weights);
  sampling.samples = 2000;
  test.options.order = sampling;
  LoaderStats stats;
  const auto order = read_epoch(test.matrix, test.options, &stats);
  EXPECT_EQ(order, std::vector<int64_t>(2000, 3));
  const uint64_t record = 3 * test.matrix->row(3).columns.size();
  ASSERT_GT(record, 300U);
  const uint64_t copies = 2000 * record;
  EXPECT_LT(stats.peak_buffered_bytes, copies / 2) << "row records of " << record << " bytes";
}

}  // namespace
}  // namespace penstock::pipeline
