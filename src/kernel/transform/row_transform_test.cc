#include "kernel/transform/row_transform.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/testing/test_seed.h"
#include "kernel/dense_row.h"
#include "kernel/transform/log1p.h"
#include "kernel/transform/sort_keys.h"
#include "kernel/transform/token_ranking.h"
#include "kernel/unpack_row.h"

namespace penstock::kernel {
namespace {

using Kind = TransformStep::Kind;

/// 32 bits at a time, in their own type.
class Random {
 public:
  using result_type = uint32_t;
  explicit Random(uint64_t seed) : engine_(seed) {}
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return std::numeric_limits<uint32_t>::max(); }
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

TransformStep step_of(Kind kind) {
  TransformStep step;
  step.kind = kind;
  return step;
}

TransformStep::Numbers numbers(std::vector<double> values) {
  return std::make_shared<const std::vector<double>>(std::move(values));
}

/// A cell's entries by ascending column, with some duplicates.
struct Entries {
  std::vector<int32_t> indices;
  std::vector<double> values;
};

Entries random_entries(Random& random, uint32_t columns, bool duplicates) {
  Entries entries;
  for (uint32_t column = 0; column < columns; ++column) {
    const uint32_t times = random() % 3 == 0 ? (duplicates && random() % 4 == 0 ? 2 : 1) : 0;
    for (uint32_t i = 0; i < times; ++i) {
      entries.indices.push_back(static_cast<int32_t>(column));
      entries.values.push_back(static_cast<double>(1 + random() % 300));
    }
  }
  return entries;
}

/// Reference: the rule of each step on a dense row, one value at a time. Empty if a value leaves
/// the range of a float, as exponents of exponents may.
std::vector<double> reference(const TransformPlan& plan, std::vector<double> row,
                              int64_t position) {
  for (const TransformStep& step : plan.steps) {
    double total = 0;
    for (const double value : row) total += value;
    if (step.row_totals) total = (*step.row_totals)[static_cast<size_t>(position)];
    if (step.kind == Kind::kColumns) {
      std::vector<double> moved(step.columns, 0);
      for (size_t i = 0; i < row.size(); ++i) {
        if ((*step.places)[i] >= 0) moved[static_cast<size_t>((*step.places)[i])] = row[i];
      }
      row = moved;
      continue;
    }
    for (size_t i = 0; i < row.size(); ++i) {
      double& x = row[i];
      if (step.kind == Kind::kNormalizeTotal && total != 0) x = x / (total / step.target);
      if (step.kind == Kind::kLog1p) x = std::log1p(x) / step.divisor;
      if (step.kind == Kind::kExpm1) x = std::expm1(x * step.divisor);
      if (step.kind == Kind::kClip) x = std::min(std::max(x, step.low), step.high);
      if (step.kind == Kind::kBinarize) x = x > step.low ? 1 : 0;
      if (step.kind == Kind::kScale) x = (x - (step.mean ? (*step.mean)[i] : 0)) / (*step.scale)[i];
      if (!(std::abs(x) < 1e30)) return {};
    }
  }
  return row;
}

TransformStep random_step(Random& random, uint32_t& columns, bool& centred) {
  TransformStep step = step_of(static_cast<Kind>(random() % 7));
  while (centred && (step.kind == Kind::kNormalizeTotal || step.kind == Kind::kColumns)) {
    step = step_of(static_cast<Kind>(random() % 7));
  }
  step.target = 1 + random() % 10000;
  // Without a base near 1: exponents of exponents overflow.
  if (step.kind == Kind::kExpm1) step.divisor = 0.001;
  step.low = step.kind == Kind::kBinarize ? random() % 3 : -static_cast<double>(random() % 2);
  step.high = random() % 200;
  if (step.kind == Kind::kNormalizeTotal && random() % 2 == 0) {
    step.row_totals = numbers({100, 0, 2500});
  }
  if (step.kind == Kind::kLog1p && centred) step.kind = Kind::kClip;  // of values below -1
  if (step.kind == Kind::kScale) {
    std::vector<double> scale, mean;
    for (uint32_t i = 0; i < columns; ++i) {
      scale.push_back(0.5 + random() % 7);
      mean.push_back(static_cast<double>(random() % 9) - 4);
    }
    step.scale = numbers(scale);
    if (random() % 2 == 0) {
      step.mean = numbers(mean);
      centred = true;
    }
  }
  if (step.kind == Kind::kColumns) {
    step.columns = columns + random() % 5;
    std::vector<int32_t> all(step.columns);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    std::shuffle(all.begin(), all.end(), random);
    std::vector<int32_t> places(all.begin(), all.begin() + columns);
    for (int32_t& place : places) place = random() % 3 == 0 ? -1 : place;
    step.places = std::make_shared<const std::vector<int32_t>>(places);
    columns = step.columns;
  }
  return step;
}

template <typename T>
void expect_plans_as_reference(double tolerance) {
  const TestSeed seed(7);
  Random random(seed);
  int left_out = 0;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t columns = 1 + random() % 5000 % (round % 10 == 0 ? 5000 : 60);
    TransformPlan plan;
    uint32_t after = columns;
    bool centred = false;
    for (uint32_t i = random() % 5; i > 0; --i) {
      plan.steps.push_back(random_step(random, after, centred));
    }
    const Entries entries = random_entries(random, columns, true);
    std::vector<double> row(columns, 0);
    for (size_t i = 0; i < entries.indices.size(); ++i) {
      row[static_cast<size_t>(entries.indices[i])] += entries.values[i];
    }
    const auto position = static_cast<int64_t>(random() % 3);
    const auto expected = reference(plan, row, position);
    if (expected.empty()) {
      ++left_out;
      continue;
    }

    const RowTransform<T> transform(plan, columns,
                                    round % 2 == 0 ? VectorPath::kScalar : best_vector_path());
    ASSERT_EQ(transform.columns(), expected.size());
    ASSERT_EQ(transform.has_dense_steps(), centred);
    std::vector<int32_t> indices = entries.indices;
    std::vector<T> values(entries.values.begin(), entries.values.end());
    RowScratch scratch;
    const uint32_t nnz = transform.apply(position, indices.data(), values.data(),
                                         static_cast<uint32_t>(values.size()), scratch);
    for (uint32_t i = 1; i < nnz; ++i) ASSERT_LT(indices[i - 1], indices[i]);
    // Anywhere, as rows of a batch are.
    std::vector<T> dense(expected.size() + 16, T{-77});
    T* const begin = dense.data() + random() % 16;
    fill_dense_row(transform, indices.data(), values.data(), nnz, begin);
    finish_dense();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(begin[i], expected[i], tolerance * (1 + std::abs(expected[i])))
          << "column " << i << ", round " << round;
    }
    ASSERT_EQ(std::count(dense.data(), begin, T{-77}), begin - dense.data());
  }
  EXPECT_LT(left_out, 50);
}

TEST(RowTransform, RandomPlansAsTheReferenceDouble) { expect_plans_as_reference<double>(1e-11); }
TEST(RowTransform, RandomPlansAsTheReferenceFloat) { expect_plans_as_reference<float>(2e-4); }

TEST(RowTransform, IntegersTakeColumnsAlone) {
  TransformPlan plan;
  plan.steps = {step_of(Kind::kColumns)};
  plan.steps[0].places =
      std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{2, -1, 0});
  plan.steps[0].columns = 3;
  const RowTransform<uint8_t> transform(plan, 3);
  std::vector<int32_t> indices{0, 1, 2, 2};
  std::vector<uint8_t> values{5, 6, 7, 8};
  RowScratch scratch;
  ASSERT_EQ(transform.apply(0, indices.data(), values.data(), 4, scratch), 2U);
  EXPECT_EQ(indices[0], 0);
  EXPECT_EQ(values[0], 15);
  EXPECT_EQ(indices[1], 2);
  EXPECT_EQ(values[1], 5);
  std::vector<int32_t> twice{1, 1};
  std::vector<uint8_t> large{200, 100};
  EXPECT_THROW(transform.apply(0, twice.data(), large.data(), 2, scratch), InvalidArgument);
  plan.steps.push_back(step_of(Kind::kLog1p));
  EXPECT_THROW(RowTransform<int32_t>(plan, 3), InvalidArgument);
}

TEST(RowTransform, PlansThatMakeNoSenseAreRefused) {
  const auto refused = [](TransformStep step) {
    TransformPlan plan;
    plan.steps.push_back(std::move(step));
    EXPECT_THROW(check_plan(plan, 3), InvalidArgument);
  };
  TransformStep step = step_of(Kind::kNormalizeTotal);
  step.target = 0;
  refused(step);
  step.target = std::numeric_limits<double>::quiet_NaN();
  refused(step);
  step = step_of(Kind::kClip);
  step.low = 1;
  refused(step);
  step.low = 5;
  step.high = 4;
  refused(step);
  step = step_of(Kind::kBinarize);
  refused(step);  // -infinity
  step = step_of(Kind::kScale);
  refused(step);
  step.scale = numbers({1, 2});
  refused(step);
  step.scale = numbers({1, 2, 0});
  refused(step);
  step.scale = numbers({1, 2, 3});
  step.mean = numbers({1});
  refused(step);
  step = step_of(Kind::kColumns);
  step.columns = 2;
  refused(step);
  for (const std::vector<int32_t>& places :
       {std::vector<int32_t>{0, 1}, {0, 1, 2}, {0, 0, -1}, {-2, 0, 1}}) {
    step.places = std::make_shared<const std::vector<int32_t>>(places);
    refused(step);
  }
  TransformPlan centred;
  centred.steps = {step_of(Kind::kScale), step_of(Kind::kNormalizeTotal)};
  centred.steps[0].scale = centred.steps[0].mean = numbers({1, 1, 1});
  EXPECT_THROW(check_plan(centred, 3), InvalidArgument);
  TransformPlan tokens;
  tokens.tokens = RankTokens{};
  EXPECT_THROW(check_plan(tokens, 3), InvalidArgument);
  tokens.tokens->medians = {1, 1, 1};
  tokens.tokens->tokens = {1, 2, int64_t{1} << 40};
  EXPECT_NO_THROW(check_plan(tokens, 3));
  tokens.tokens->dtype = DataType::kInt32;
  EXPECT_THROW(check_plan(tokens, 3), InvalidArgument);
}

TEST(Log1p, PathsAgreeToTheBitAndAreNearTheExactResult) {
  const TestSeed seed(3);
  Random random(seed);
  std::vector<float> values;
  values.reserve(400'000);
  for (int i = 0; i < 200'000; ++i) values.push_back(std::bit_cast<float>(random()));
  for (int i = 0; i < 200'000; ++i) values.push_back(static_cast<float>(random() % 100000) / 7.0F);
  for (int i = 0; i < 100'000; ++i)
    values.push_back(static_cast<float>(random() % 2000) * 1e-3F - 1);
  for (const float special :
       {0.0F, -0.0F, -1.0F, -2.0F, INFINITY, -INFINITY, NAN, 1e-30F, 0x1p60F}) {
    values.push_back(special);
  }
  std::shuffle(values.begin(), values.end(), random);
  std::vector<float> scalar = values;
  log1p_values(scalar.data(), static_cast<uint32_t>(scalar.size()), VectorPath::kScalar);
  for (size_t begin = 0; begin < values.size();) {  // in runs of odd lengths
    const size_t count = std::min<size_t>(random() % 40, values.size() - begin);
    std::vector<float> vector(values.begin() + static_cast<ptrdiff_t>(begin),
                              values.begin() + static_cast<ptrdiff_t>(begin + count));
    log1p_values(vector.data(), static_cast<uint32_t>(count), best_vector_path());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(vector[i]), std::bit_cast<uint32_t>(scalar[begin + i]))
          << values[begin + i];
    }
    begin += count;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double exact = std::log1p(static_cast<double>(values[i]));
    if (std::isnan(exact) || std::isinf(exact)) {
      ASSERT_EQ(std::isnan(exact), std::isnan(scalar[i])) << values[i];
      continue;
    }
    ASSERT_NEAR(scalar[i], exact, 2.5e-7 * std::abs(exact) + 1e-45) << values[i];
  }
}

// The result must be the same for every build and machine: with vectors, without, and on other
// processors.
TEST(Log1p, TheSameBitsEverywhere) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 200000; ++i) {
    values.push_back(static_cast<float>(i % 4096) + static_cast<float>(i) * 0x1p-12F);
    values.push_back(-0.998F + static_cast<float>(i) * 0x1p-18F);
  }
  log1p_values(values.data(), static_cast<uint32_t>(values.size()));
  uint64_t sum = 0;
  for (const float value : values) {
    sum = (sum ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3U;
  }
  EXPECT_EQ(sum, 5735584852750398622U);
}

TEST(SortKeys, IsStable) {
  const TestSeed seed(5);
  Random random(seed);
  std::vector<uint64_t> spare;
  for (const unsigned bits : {1U, 5U, 11U, 12U, 22U, 31U}) {
    for (const size_t count : {0U, 1U, 2U, 100U, 3000U}) {
      std::vector<uint64_t> keys;
      for (size_t i = 0; i < count; ++i) {
        keys.push_back((random() & ((uint64_t{1} << bits) - 1)) << 32 | i);
      }
      std::vector<uint64_t> expected = keys;
      std::sort(expected.begin(), expected.end());  // the number makes it stable
      sort_keys(keys, bits, spare);
      ASSERT_EQ(keys, expected);
    }
  }
}

TEST(TokenRanking, AsAStableSortOfTheRule) {
  const TestSeed seed(11);
  Random random(seed);
  RowScratch scratch;
  for (int round = 0; round < 300; ++round) {
    const uint32_t columns = 1 + random() % 3000;
    RankTokens rule;
    rule.max_tokens = 3 + random() % 500;
    rule.pad = -5;
    if (round % 2 == 0) rule.first = 100000;
    if (round % 3 == 0) rule.last = 100001;
    if (round % 5 == 0) rule.dtype = DataType::kInt32;
    for (uint32_t i = 0; i < columns; ++i) {
      // Many medians are equal or differ by less than a float can tell.
      rule.medians.push_back(random() % 10 == 0 ? 0 : 1.0 + (random() % 4) * 1e-12);
      rule.tokens.push_back(static_cast<int64_t>(columns - i));
    }
    Entries entries = random_entries(random, columns, false);
    for (double& value : entries.values) value = static_cast<double>(random() % 6);
    double total = 0;
    for (const double value : entries.values) total += value;
    std::vector<std::pair<double, size_t>> ranked;
    for (size_t i = 0; i < entries.values.size(); ++i) {
      const double median = rule.medians[static_cast<size_t>(entries.indices[i])];
      if (median <= 0 || entries.values[i] <= 0) continue;
      ranked.emplace_back(entries.values[i] / total * rule.target / median, i);
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<int64_t> expected;
    if (rule.first) expected.push_back(*rule.first);
    const size_t room = rule.max_tokens - (rule.first ? 1 : 0) - (rule.last ? 1 : 0);
    for (size_t i = 0; i < std::min(room, ranked.size()); ++i) {
      const int32_t column = entries.indices[ranked[i].second];
      expected.push_back(rule.tokens[static_cast<size_t>(column)]);
    }
    if (rule.last) expected.push_back(*rule.last);
    const size_t length = expected.size();
    expected.resize(rule.max_tokens, rule.pad);

    const TokenRanking ranking(rule);
    std::vector<int64_t> ids(rule.max_tokens, -1);
    ASSERT_EQ(ranking.rank(0, entries.indices.data(), entries.values.data(),
                           static_cast<uint32_t>(entries.values.size()),
                           reinterpret_cast<std::byte*>(ids.data()), scratch),
              length);
    if (rule.dtype == DataType::kInt32) {
      const auto* narrow = reinterpret_cast<const int32_t*>(ids.data());
      ASSERT_EQ(std::vector<int64_t>(narrow, narrow + rule.max_tokens), expected);
    } else {
      ASSERT_EQ(ids, expected);
    }
  }
}

}  // namespace
}  // namespace penstock::kernel
