#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/statistics.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "base/threads/cancellation.h"
#include "pipeline/testing/exact_moments.h"
#include "pipeline/testing/memory_experiment.h"

// Compares passes over a matrix in memory with the definition, for random selections, groups and
// transforms. The result is the same bit for bit for any threads and budget. Also tests refused
// options and errors in the middle of a pass.

namespace penstock {
namespace {

using pipeline::testing::as_matrix;
using pipeline::testing::exact_moments;
using pipeline::testing::Fault;
using pipeline::testing::MemoryMatrix;
using pipeline::testing::MemoryMatrixOptions;
using pipeline::testing::near;

struct Case {
  std::shared_ptr<MemoryMatrix> matrix;
  StatisticsOptions options;
  std::vector<int64_t> rows, columns;  ///< that are selected
};

Case random_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryMatrixOptions made;
  made.rows = 1 + static_cast<int64_t>(random() % 900);
  made.columns = 1 + static_cast<int64_t>(random() % 50);
  made.max_nnz = static_cast<uint32_t>(random() % 30);
  made.rare_values = seed % 3 == 0 ? 0.4 : 0.0;
  made.max_unit_rows = 1 + static_cast<int64_t>(random() % 80);
  made.seed = seed;
  Case test{std::make_shared<MemoryMatrix>(made), {}, {}, {}};
  for (int64_t i = 0; i < made.rows; ++i) {
    if (random() % 4 != 0) test.rows.push_back(i);
  }
  for (int64_t i = 0; i < made.columns; ++i) {
    if (random() % 4 != 0) test.columns.push_back(i);
  }
  StatisticsOptions& options = test.options;
  options.rows = RowSelection::from_sorted(test.rows);
  options.columns = test.columns;
  options.memory_budget = 16_MiB;
  options.threads = 1 + static_cast<unsigned>(seed % 3);
  options.by_row = random() % 2 == 0;
  options.by_column = !options.by_row || random() % 2 == 0;
  options.group_count = 1 + static_cast<uint32_t>(random() % 3);
  if (options.group_count > 1) {
    for (size_t i = 0; i < test.rows.size(); ++i) {
      options.groups.push_back(static_cast<uint32_t>(random() % options.group_count));
    }
  }
  return test;
}

/// Row by row what the transforms leave, several entries of a column summed.
std::vector<std::vector<double>> dense(const Case& test, std::optional<double> target) {
  std::vector<std::vector<double>> all;
  for (const int64_t row : test.rows) {
    std::vector<double>& values = all.emplace_back(test.columns.size());
    const auto& stored = test.matrix->row(row);
    double total = 0;
    for (size_t k = 0; k < stored.columns.size(); ++k) {
      const auto at = std::lower_bound(test.columns.begin(), test.columns.end(), stored.columns[k]);
      if (at == test.columns.end() || *at != stored.columns[k]) continue;
      values[static_cast<size_t>(at - test.columns.begin())] += double{stored.values[k]};
      total += double{stored.values[k]};
    }
    if (!target || total == 0) continue;
    for (double& value : values) value /= total / *target;
  }
  return all;
}

void finish(StatisticsPass& pass) {
  while (pass.advance(10)) {
  }
}

void expect_near(const Moments& found, size_t at, const std::vector<double>& values,
                 bool is_exact) {
  const auto expected = exact_moments(values);
  long double squares = 0, sizes = 0;
  for (const double value : values) {
    squares += static_cast<long double>(value) * static_cast<long double>(value);
    sizes += std::abs(static_cast<long double>(value));
  }
  ASSERT_EQ(found.nonzeros[at], expected.nonzeros);
  ASSERT_TRUE(near(found.total[at], expected.total, is_exact && expected.integers, sizes));
  ASSERT_TRUE(near(found.squared_deviation[at], expected.squared_deviation,
                   is_exact && expected.integers, squares));
}

void expect_those_of_the_definition(const StatisticsPass& pass, const Case& test,
                                    std::optional<double> target) {
  const auto values = dense(test, target);
  const StatisticsOptions& options = test.options;
  ASSERT_EQ(pass.rows_done(), test.rows.size());
  ASSERT_EQ(pass.column_count(), test.columns.size());
  std::vector<uint64_t> sizes(options.group_count);
  std::vector<std::vector<double>> of_columns(options.group_count * test.columns.size());
  for (size_t row = 0; row < values.size(); ++row) {
    const uint32_t group = options.groups.empty() ? 0 : options.groups[row];
    ++sizes[group];
    for (size_t column = 0; column < test.columns.size(); ++column) {
      of_columns[group * test.columns.size() + column].push_back(values[row][column]);
    }
    if (options.by_row) expect_near(pass.rows(), row, values[row], !target);
    if (::testing::Test::HasFatalFailure()) return;
  }
  ASSERT_EQ(pass.group_sizes(), sizes);
  ASSERT_EQ(pass.rows().total.size(), options.by_row ? values.size() : 0U);
  const Moments columns = pass.columns();
  ASSERT_EQ(columns.total.size(), options.by_column ? of_columns.size() : 0U);
  for (size_t at = 0; at < columns.total.size(); ++at) {
    expect_near(columns, at, of_columns[at], !target);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(StatisticsPass, IsThatOfTheDefinition) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    Case test = random_case(seed);
    std::optional<double> target;
    if (seed % 4 == 0) {
      target = 100;
      TransformPlan plan;
      plan.steps.emplace_back();
      plan.steps.back().kind = TransformStep::Kind::kNormalizeTotal;
      plan.steps.back().target = *target;
      test.options.transforms = std::make_shared<const TransformPlan>(plan);
    }
    StatisticsPass pass(as_matrix(test.matrix), test.options);
    finish(pass);
    expect_those_of_the_definition(pass, test, target);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(StatisticsPass, ValuesAboveTheBoundCountAsIt) {
  Case test = random_case(3);
  test.options.by_column = true;
  test.options.upper.assign(test.options.group_count * test.columns.size(), 7.5);
  StatisticsPass pass(as_matrix(test.matrix), test.options);
  finish(pass);
  const auto values = dense(test, std::nullopt);
  const Moments found = pass.columns();
  for (size_t column = 0; column < test.columns.size(); ++column) {
    double total = 0;
    for (uint32_t group = 0; group < test.options.group_count; ++group) {
      total += found.total[group * test.columns.size() + column];
    }
    double expected = 0;
    for (const auto& row : values) expected += std::min(row[column], 7.5);
    EXPECT_NEAR(total, expected, 1e-9 * expected);
  }
}

TEST(StatisticsPass, IsTheSameForAnyThreadsBudgetAndPatience) {
  for (const uint64_t seed : {3U, 6U, 9U}) {
    Case test = random_case(seed);
    test.options.by_column = test.options.by_row = true;
    std::optional<Moments> columns, rows;
    for (const unsigned threads : {1U, 2U, 5U}) {
      for (const uint64_t budget : {4_MiB, 64_MiB}) {
        test.options.threads = threads;
        test.options.memory_budget = budget;
        StatisticsPass pass(as_matrix(test.matrix), test.options);
        EXPECT_TRUE(pass.advance(0));
        EXPECT_EQ(pass.rows_done(), 0U);
        while (pass.advance(threads == 1 ? 0.0005 : 5)) {
        }
        EXPECT_FALSE(pass.advance(1));
        if (!columns) columns = pass.columns(), rows = pass.rows();
        EXPECT_EQ(pass.columns().total, columns->total);
        EXPECT_EQ(pass.columns().squared_deviation, columns->squared_deviation);
        EXPECT_EQ(pass.rows().squared_deviation, rows->squared_deviation);
      }
    }
  }
}

/// Of bits, so that NaN is itself.
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  });
}

TEST(StatisticsSum, PassesOverChunksGiveTheBitsOfOnePass) {
  int other_bits = 0;
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = random_case(seed);
    StatisticsOptions& options = test.options;
    options.by_column = true;
    options.by_row = false;
    const auto columns = static_cast<uint32_t>(test.columns.size());
    if (random() % 3 == 0) options.upper.assign(options.group_count * columns, 7.5);
    const uint64_t chunk = 1 + random() % (test.rows.size() + 5);
    options.chunk_rows = chunk;
    StatisticsPass whole(as_matrix(test.matrix), options);
    finish(whole);
    StatisticsSum sum(columns, options.group_count, options.upper);
    for (size_t first = 0; first < test.rows.size(); first += chunk) {
      const size_t end = std::min<size_t>(test.rows.size(), first + chunk);
      const auto at = [&](auto& of, size_t place) {
        return of.begin() + static_cast<ptrdiff_t>(place);
      };
      StatisticsOptions part = options;
      part.chunk_rows = StatisticsOptions{}.chunk_rows;
      part.rows =
          RowSelection::from_sorted(std::vector<int64_t>(at(test.rows, first), at(test.rows, end)));
      // Only the groups that occur, which have other numbers there.
      std::vector<uint32_t> groups = {0};
      if (!options.groups.empty()) {
        part.groups.assign(at(options.groups, first), at(options.groups, end));
        groups = part.groups;
        std::sort(groups.begin(), groups.end());
        groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
        for (uint32_t& group : part.groups) {
          group = static_cast<uint32_t>(std::lower_bound(groups.begin(), groups.end(), group) -
                                        groups.begin());
        }
      }
      part.group_count = static_cast<uint32_t>(groups.size());
      if (!options.upper.empty()) part.upper.assign(groups.size() * columns, 7.5);
      StatisticsPass pass(as_matrix(test.matrix), part);
      finish(pass);
      sum.add(pass.sums(), pass.group_sizes(), groups);
    }
    ASSERT_EQ(sum.group_sizes(), whole.group_sizes());
    const Moments ours = sum.columns(), theirs = whole.columns();
    ASSERT_EQ(ours.nonzeros, theirs.nonzeros);
    ASSERT_TRUE(same_bits(ours.total, theirs.total)) << number;
    ASSERT_TRUE(same_bits(ours.squared_deviation, theirs.squared_deviation)) << number;

    options.chunk_rows = StatisticsOptions{}.chunk_rows;
    StatisticsPass at_once(as_matrix(test.matrix), options);
    finish(at_once);
    other_bits += !same_bits(ours.squared_deviation, at_once.columns().squared_deviation);
  }
  EXPECT_GT(other_bits, 5) << "the chunks matter";
}

TEST(StatisticsSum, SumsOfAnotherShapeAreRefused) {
  const auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  StatisticsOptions options;
  options.memory_budget = 16_MiB;
  StatisticsPass pass(as_matrix(matrix), options);
  finish(pass);
  const std::string sums = pass.sums();
  const uint32_t columns = pass.column_count();
  const auto added = [&](StatisticsSum&& sum, std::string_view bytes, std::vector<uint32_t> to) {
    sum.add(bytes, pass.group_sizes(), to);
  };
  EXPECT_NO_THROW(added({columns, 2}, sums, {1}));
  EXPECT_THROW(added({columns + 1, 1}, sums, {0}), InvalidArgument);
  EXPECT_THROW(added({columns, 2}, sums, {2}), InvalidArgument);
  EXPECT_THROW(added({columns, 2}, sums, {0, 1}), InvalidArgument);
  EXPECT_THROW(added({columns, 1, std::vector<double>(columns)}, sums, {0}), InvalidArgument);
  EXPECT_THROW(added({columns, 1}, sums + "x", {0}), InvalidArgument);
  for (size_t length = 0; length < sums.size(); length += 1 + length / 20) {
    EXPECT_THROW(added({columns, 1}, std::string_view(sums).substr(0, length), {0}),
                 InvalidArgument);
  }
  EXPECT_THROW(StatisticsSum(columns, 2, std::vector<double>(columns)), InvalidArgument);
}

TEST(StatisticsPass, WhatMakesNoSenseIsRefused) {
  const auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  const auto refused = [&](auto change, const std::string& message) {
    StatisticsOptions options;
    options.memory_budget = 16_MiB;
    change(options);
    try {
      const StatisticsPass pass(as_matrix(matrix), options);
      ADD_FAILURE() << message;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  refused([](auto& options) { options.dtype = DataType::kInt32; }, "float32 or float64, not int32");
  refused([](auto& options) { options.groups = {0}; }, "one number for each row: 1 for 1000");
  refused([](auto& options) { options.groups.assign(1000, 1); }, "less than group_count: 1 of 1");
  refused([](auto& options) { options.chunk_rows = 0; }, "chunk_rows must be 1 or more");
  refused([](auto& options) { options.upper = {1}; }, "each group and column: 1 for 100");
  refused([](auto& options) { options.columns = std::vector<int64_t>{5, 4}; }, "ascend");
}

TEST(StatisticsPass, AnErrorOfTheReadingIsRaised) {
  for (const Fault fault : {Fault::kFetch, Fault::kTask, Fault::kPack}) {
    MemoryMatrixOptions made;
    made.fault = fault;
    made.fault_after = 3;
    StatisticsOptions options;
    options.memory_budget = 16_MiB;
    StatisticsPass pass(as_matrix(std::make_shared<MemoryMatrix>(made)), options);
    EXPECT_THROW(finish(pass), IoError);
  }
}

TEST(StatisticsPass, NothingInterruptsABatchThatIsAdded) {
  MemoryMatrixOptions made;
  made.rows = 4000;
  made.fetch_microseconds = 4000;  // far longer in all than the hook waits between two looks
  StatisticsOptions options;
  options.memory_budget = 16_MiB;
  options.threads = 2;
  int looks = 0;
  set_wait_hook([&] { ++looks; });
  StatisticsPass pass(as_matrix(std::make_shared<MemoryMatrix>(made)), options);
  finish(pass);
  set_wait_hook(nullptr);
  EXPECT_EQ(pass.rows_done(), 4000U);
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace penstock
