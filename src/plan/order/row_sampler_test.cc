#include "plan/order/row_sampler.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/order/portable_log.h"
#include "plan/testing/random_units.h"

namespace penstock::plan {
namespace {

using testing::random_units;
using testing::Rng;

uint64_t row_count(const std::vector<UnitRows>& units) {
  return units.back().first_position + units.back().row_count;
}

std::vector<double> random_weights(Rng& rng, uint64_t rows) {
  std::vector<double> weights(rows);
  for (double& weight : weights) {
    weight = rng() % 5 == 0 ? 0.0 : std::exp(std::normal_distribution<>(0, 1)(rng)) * 1e-30;
  }
  weights[rng() % rows] = 1e-30;
  return weights;
}

RowSampling sampling(std::span<const double> weights, uint64_t samples, bool replacement = true) {
  RowSampling result;
  if (!weights.empty()) {
    result.weights = RowWeights::from_values(weights);
  }
  result.samples = samples;
  result.replacement = replacement;
  return result;
}

EpochOptions epoch_of(uint64_t seed, uint64_t epoch) {
  EpochOptions options;
  options.seed = seed;
  options.epoch = epoch;
  return options;
}

/// How often each position leaves, by what the plan of one process places.
void count_rows(const EpochPlan& plan, std::vector<uint64_t>& times) {
  std::vector<Placement> placements;
  std::vector<bool> taken(plan.row_count());
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    plan.place(i, placements);
    ASSERT_EQ(placements.size(), plan.visit(i).row_count());
    EXPECT_TRUE(std::is_sorted(placements.begin(), placements.end(), [](auto& a, auto& b) {
      return a.row != b.row ? a.row < b.row : a.slot < b.slot;
    }));
    for (const Placement& each : placements) {
      ASSERT_LT(each.row, plan.visit(i).selected_rows);
      ASSERT_FALSE(taken[each.slot]);
      taken[each.slot] = true;
      ++times[plan.visit(i).first_position + each.row];
    }
  }
  EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](bool each) { return each; }));
}

/// Chi-square of counts against expectations, in standard deviations above its mean.
double chi_square_excess(std::span<const double> seen, std::span<const double> expected) {
  double chi = 0;
  double degrees = -1;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(seen[i], 0);
      continue;
    }
    chi += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
    ++degrees;
  }
  return (chi - degrees) / std::sqrt(2 * degrees);
}

TEST(RowWeights, KeepProportionsInWholeNumbers) {
  const TestSeed seed(1);
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    const auto values = random_weights(rng, 1 + rng() % 20000);
    const RowWeights weights = RowWeights::from_values(values);
    double total = 0;
    for (const double value : values) total += value;
    std::vector<uint64_t> kept;
    weights.copy(0, values.size(), kept);
    uint64_t sum = 0, positive = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double share = static_cast<double>(kept[i]) * 0x1p-62;
      EXPECT_NEAR(share, values[i] / total, 0x1p-26 * values[i] / total + 0x1p-60);
      EXPECT_EQ(kept[i] == 0, values[i] == 0);
      positive += kept[i] != 0;
      sum += kept[i];
    }
    EXPECT_EQ(weights.total(), sum);
    EXPECT_EQ(weights.positive_count(), positive);
    const uint64_t begin = rng() % values.size();
    const uint64_t end = begin + rng() % (values.size() - begin + 1);
    uint64_t part = 0;
    for (uint64_t i = begin; i < end; ++i) part += kept[i];
    EXPECT_EQ(weights.sum(begin, end), part);
  }
}

TEST(RowWeights, OfClassesAreThoseOfTheirRows) {
  const TestSeed seed(2);
  Rng rng(seed);
  for (const size_t classes : {1U, 2U, 250U, 256U, 257U, 60000U, 70000U}) {
    std::vector<double> of_class(classes);
    for (double& weight : of_class) weight = static_cast<double>(rng() % 1000);
    of_class[0] = 3;
    std::vector<int32_t> codes(5000);
    for (int32_t& code : codes) code = static_cast<int32_t>(rng() % classes);
    codes[0] = 0;
    std::vector<double> values;
    values.reserve(codes.size());
    for (const int32_t code : codes) values.push_back(of_class[static_cast<size_t>(code)]);
    std::vector<uint64_t> a, b;
    const RowWeights by_class = RowWeights::from_classes(codes, of_class);
    by_class.copy(0, codes.size(), a);
    RowWeights::from_values(values).copy(0, codes.size(), b);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(a[i]), static_cast<double>(b[i]),
                  0x1p-25 * static_cast<double>(a[i]));
    }
    const size_t width = classes <= 256 ? 1 : classes <= 65536 ? 2 : 4;
    EXPECT_LE(by_class.memory_bytes(), codes.size() * width + classes * 8 + 100);
  }
}

TEST(RowWeights, RefuseWhatIsNoWeight) {
  using V = std::vector<double>;
  EXPECT_THROW(RowWeights::from_values(V{1, NAN}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_values(V{1, -1}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_values(V{INFINITY}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_values(V{0, 0}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_values(V{}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_classes(std::vector<int32_t>{0, 2}, V{1, 1}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_classes(std::vector<int32_t>{-1}, V{1}), InvalidArgument);
  EXPECT_THROW(RowWeights::from_classes(std::vector<int32_t>{0}, V{0, 1}), InvalidArgument);
  EXPECT_NO_THROW(RowWeights::from_values(V{1e308, 1e308, 5e-324}));
}

TEST(PortableLog, IsTheLogarithm) {
  const TestSeed seed(3);
  Rng rng(seed);
  for (int i = 0; i < 200000; ++i) {
    const double x = (static_cast<double>(rng() >> 11) + 0.5) * 0x1p-53 *
                     (i % 2 == 0 ? 1.0 : std::ldexp(1.0, -static_cast<int>(rng() % 50)));
    const double expected = std::log(x);
    EXPECT_NEAR(portable_log(x), expected, std::abs(expected) * 0x1p-50);
  }
}

TEST(RowSampler, DrawsRowsInProportionToTheirWeights) {
  Rng rng(4);
  for (int round = 0; round < 6; ++round) {
    const auto units = random_units(rng, 12, 40);
    const uint64_t rows = row_count(units);
    const auto weights = round == 5 ? std::vector<double>() : random_weights(rng, rows);
    const uint64_t samples = 1000 + rng() % 500;
    constexpr uint64_t kEpochs = 400;
    std::vector<uint64_t> times(rows);
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const RowSampler sampler(units, sampling(weights, samples), 9, epoch);
      const EpochPlan plan(sampler.units(), epoch_of(9, epoch), 4, &sampler);
      EXPECT_EQ(plan.row_count(), samples);
      count_rows(plan, times);
    }
    double total = 0;
    for (const double weight : weights) total += weight;
    std::vector<double> seen, expected;
    for (uint64_t i = 0; i < rows; ++i) {
      seen.push_back(static_cast<double>(times[i]));
      expected.push_back(static_cast<double>(samples * kEpochs) *
                         (weights.empty() ? 1.0 / static_cast<double>(rows) : weights[i] / total));
    }
    EXPECT_LT(chi_square_excess(seen, expected), 4) << "round " << round;
    EXPECT_GT(chi_square_excess(seen, expected), -4) << "round " << round;
  }
}

// A multinomial, not its expectation rounded: the number of draws of a unit varies as it must.
TEST(RowSampler, DrawsAreIndependent) {
  Rng rng(5);
  const auto units = random_units(rng, 5, 30);
  const uint64_t rows = row_count(units);
  const auto weights = random_weights(rng, rows);
  const RowWeights kept = RowWeights::from_values(weights);
  const double share =
      static_cast<double>(kept.sum(0, units[0].row_count)) / static_cast<double>(kept.total());
  constexpr int kEpochs = 4000;
  constexpr double kSamples = 200;
  double sum = 0, squares = 0;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const RowSampler sampler(units, sampling(weights, 200), 1, epoch);
    double draws = 0;
    for (const UnitRows& unit : sampler.units()) {
      if (unit.unit == units[0].unit) draws += unit.row_count;
    }
    sum += draws;
    squares += draws * draws;
  }
  const double mean = sum / kEpochs;
  const double variance = squares / kEpochs - mean * mean;
  const double expected = kSamples * share * (1 - share);
  EXPECT_NEAR(mean, kSamples * share, 5 * std::sqrt(expected / kEpochs));
  EXPECT_NEAR(variance / expected, 1, 5 * std::sqrt(2.0 / kEpochs));
}

// Against the definition: one after the other, in proportion to the weights that are left.
TEST(RowSampler, WithoutReplacementIsSequentialDrawing) {
  const std::vector<UnitRows> units = {{0, 0, 2, 100}, {1, 2, 1, 100}, {2, 3, 2, 100}};
  const std::vector<double> weights = {1, 5, 2, 0, 4};
  const double total = 12;
  std::map<std::pair<uint64_t, uint64_t>, double> seen;
  constexpr uint64_t kEpochs = 30000;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const RowSampler sampler(units, sampling(weights, 2, false), 3, epoch);
    const EpochPlan plan(sampler.units(), epoch_of(3, epoch), 2, &sampler);
    std::vector<uint64_t> times(5);
    count_rows(plan, times);
    std::vector<uint64_t> drawn;
    for (uint64_t i = 0; i < times.size(); ++i) {
      ASSERT_LE(times[i], 1U);
      if (times[i] == 1) drawn.push_back(i);
    }
    ASSERT_EQ(drawn.size(), 2U);
    ++seen[{drawn[0], drawn[1]}];
  }
  std::vector<double> counts, expected;
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t j = i + 1; j < 5; ++j) {
      counts.push_back(seen[{i, j}]);
      const double pair =
          weights[i] * weights[j] / total * (1 / (total - weights[i]) + 1 / (total - weights[j]));
      expected.push_back(static_cast<double>(kEpochs) * pair);
    }
  }
  EXPECT_LT(chi_square_excess(counts, expected), 4);
}

TEST(RowSampler, WithoutReplacementTakesEachRowOnceForRandomShapes) {
  const TestSeed seed(6);
  Rng rng(seed);
  for (int round = 0; round < 300; ++round) {
    const auto units = random_units(rng, 1 + rng() % 20, 50);
    const uint64_t rows = row_count(units);
    const auto weights = round % 3 == 0 ? std::vector<double>() : random_weights(rng, rows);
    uint64_t positive = rows;
    for (const double weight : weights) positive -= weight == 0;
    const uint64_t samples = round % 5 == 0 ? positive : rng() % (positive + 1);
    const RowSampler sampler(units, sampling(weights, samples, false), rng(), 0);
    const EpochPlan plan(sampler.units(), epoch_of(0, 0), 3, &sampler);
    ASSERT_EQ(plan.row_count(), samples);
    std::vector<uint64_t> times(rows);
    count_rows(plan, times);
    for (uint64_t i = 0; i < rows; ++i) {
      EXPECT_LE(times[i], weights.empty() || weights[i] > 0 ? 1U : 0U);
    }
    EXPECT_THROW(RowSampler(units, sampling(weights, positive + 1, false), 0, 0), InvalidArgument);
  }
}

// All ranks and workers together get the drawn rows, for any spread.
TEST(RowSampler, RanksAndWorkersShareWhatWasDrawn) {
  const TestSeed seed(7);
  Rng rng(seed);
  for (int round = 0; round < 150; ++round) {
    const auto units = random_units(rng, 1 + rng() % 90, 30);
    const uint64_t rows = row_count(units);
    const auto weights = random_weights(rng, rows);
    const uint64_t samples = rng() % (3 * rows);
    const RowSampler sampler(units, sampling(weights, samples), rng(), 1);
    EpochOptions options = epoch_of(rng(), 1);
    options.uneven = UnevenRows::kExact;
    std::vector<uint64_t> alone(rows), together(rows);
    count_rows(EpochPlan(sampler.units(), options, 5, &sampler), alone);
    options.shard.world_size = static_cast<uint32_t>(1 + rng() % 4);
    options.shard.num_workers = static_cast<uint32_t>(1 + rng() % 3);
    for (uint32_t rank = 0; rank < options.shard.world_size; ++rank) {
      for (uint32_t worker = 0; worker < options.shard.num_workers; ++worker) {
        options.shard.rank = rank;
        options.shard.worker = worker;
        const auto spread = static_cast<uint32_t>(1 + rng() % 40);
        count_rows(EpochPlan(sampler.units(), options, spread, &sampler), together);
      }
    }
    ASSERT_EQ(together, alone);
  }
}

TEST(RowSampler, VisitsAUnitAsOftenAsItsDrawsNeed) {
  const std::vector<UnitRows> units = {
      {0, 0, 3000, 3000}, {1, 3000, 3000, 3000}, {2, 6000, 3000, 3000}};
  std::vector<double> weights(9000, 0.0);
  std::fill(weights.begin(), weights.begin() + 3000, 1.0);
  weights[3000] = 30;
  const RowSampler sampler(units, sampling(weights, 100000), 0, 0);
  uint64_t draws = 0;
  std::map<uint32_t, std::vector<uint32_t>> repeats;
  for (const UnitRows& unit : sampler.units()) {
    EXPECT_LE(unit.row_count, 6000U);
    EXPECT_EQ(unit.selected_rows(), 3000U);
    EXPECT_EQ(unit.packed_bytes, unit.row_count);
    repeats[unit.unit].push_back(unit.repeat);
    draws += unit.row_count;
  }
  EXPECT_EQ(draws, 100000U);
  EXPECT_EQ(repeats.count(2), 0U);
  EXPECT_GE(repeats[0].size(), 16U);
  std::vector<uint64_t> times(9000);
  count_rows(EpochPlan(sampler.units(), epoch_of(0, 0), 4, &sampler), times);
  EXPECT_NEAR(static_cast<double>(times[3000]), 100000.0 * 30 / 3030, 5 * std::sqrt(1000.0));
  // Its visits draw again.
  const auto one = *std::max_element(times.begin(), times.begin() + 3000);
  EXPECT_LT(one, 80U);
}

TEST(RowSampler, RefusesWhatCannotBeDrawn) {
  const std::vector<UnitRows> units = {{0, 0, 10, 10}};
  const std::vector<double> short_weights(9, 1.0);
  EXPECT_THROW(RowSampler(units, sampling(short_weights, 5), 0, 0), InvalidArgument);
  EXPECT_THROW(RowSampler({}, sampling({}, 5), 0, 0), InvalidArgument);
  EXPECT_THROW(RowSampler(units, sampling({}, 11, false), 0, 0), InvalidArgument);
  EXPECT_THROW(RowSampler(units, sampling({}, uint64_t{1} << 40), 0, 0), InvalidArgument);
  EXPECT_TRUE(RowSampler({}, sampling({}, 0), 0, 0).units().empty());
  const RowSampler sampler(units, sampling({}, 5), 0, 0);
  EpochOptions options;
  options.shuffle = false;
  EXPECT_THROW(EpochPlan(sampler.units(), options, 1, &sampler), InvalidArgument);
}

TEST(RowSampler, FingerprintSeesTheWeights) {
  const TestSeed seed(8);
  Rng rng(seed);
  const auto units = random_units(rng, 5, 20);
  auto weights = random_weights(rng, row_count(units));
  const auto fingerprint = [&](uint64_t samples) {
    return RowSampler(units, sampling(weights, samples), 0, 0).fingerprint();
  };
  const uint64_t before = fingerprint(10);
  EXPECT_NE(fingerprint(11), before);
  weights[2] += 1e-30;
  EXPECT_NE(fingerprint(10), before);
}

}  // namespace
}  // namespace penstock::plan
