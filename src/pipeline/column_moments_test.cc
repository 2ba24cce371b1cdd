#include "pipeline/column_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "pipeline/batch/batch_access.h"
#include "pipeline/testing/exact_moments.h"

// Compares sums of columns from CSR batches with the definition: groups, clipping, several ranges,
// values that are not integers or too large for exact sums.

namespace penstock::pipeline {
namespace {

struct Rows {
  std::vector<std::vector<std::pair<int32_t, double>>> entries;
  std::vector<uint32_t> groups;
};

struct Shape {
  uint32_t columns = 1, group_count = 1;
  DataType dtype = DataType::kFloat64;
};

double random_value(std::mt19937_64& random, DataType dtype) {
  double value = static_cast<double>(random() % 50);
  switch (random() % 24) {
    case 0:
      value = static_cast<double>(random() % 1000) / 7;
      break;
    case 1:
      value = -value;
      break;
    case 2:
      value = 3e9 + static_cast<double>(random() % 1000);  // an integer whose square does not fit
      break;
    case 3:
      value = 2147483647.0 - static_cast<double>(random() % 3);
      break;
    default:
      break;
  }
  return dtype == DataType::kFloat32 ? double{static_cast<float>(value)} : value;
}

Rows random_rows(std::mt19937_64& random, const Shape& shape, size_t count) {
  Rows rows;
  for (size_t i = 0; i < count; ++i) {
    auto& row = rows.entries.emplace_back();
    for (uint32_t column = 0; column < shape.columns; ++column) {
      if (random() % (shape.columns > 100 ? 40 : 3) != 0) continue;
      row.emplace_back(static_cast<int32_t>(column), random_value(random, shape.dtype));
    }
    rows.groups.push_back(static_cast<uint32_t>(random() % shape.group_count));
  }
  return rows;
}

/// A batch over memory of its own.
class MadeBatch {
 public:
  MadeBatch(const Rows& rows, size_t begin, size_t end, const Shape& shape) : indptr_{0} {
    for (size_t i = begin; i < end; ++i) {
      for (const auto& [column, value] : rows.entries[i]) {
        indices_.push_back(column);
        add(value, shape.dtype);
      }
      indptr_.push_back(static_cast<int32_t>(indices_.size()));
    }
    batch_ = BatchAccess::make();
    BatchAccess::set_shape(*batch_, static_cast<uint32_t>(end - begin), shape.columns,
                           indices_.size(), shape.dtype, BatchLayout::kCsr);
    BatchAccess::set_values(*batch_, indptr_, indices_, values_.data());
  }
  const Batch& operator*() const { return *batch_; }

 private:
  void add(double value, DataType dtype) {
    const auto narrow = static_cast<float>(value);
    const void* const at = dtype == DataType::kFloat32 ? static_cast<const void*>(&narrow) : &value;
    const size_t size = size_of(dtype);
    values_.resize(values_.size() + size);
    std::memcpy(values_.data() + values_.size() - size, at, size);
  }
  std::vector<int32_t> indptr_, indices_;
  std::vector<std::byte> values_;
  std::shared_ptr<Batch> batch_;
};

/// Adds rows [begin, end) of a batch that may have rows before and after them.
void add_batch(std::mt19937_64& random, const Rows& rows, size_t begin, size_t end,
               const Shape& shape, ColumnMoments& moments) {
  const size_t first = begin - std::min<size_t>(begin, random() % 3);
  const size_t last = std::min(rows.entries.size(), end + random() % 3);
  const MadeBatch batch(rows, first, last, shape);
  std::vector<uint32_t> groups;
  if (shape.group_count > 1) {
    groups.assign(rows.groups.begin() + static_cast<std::ptrdiff_t>(first),
                  rows.groups.begin() + static_cast<std::ptrdiff_t>(last));
  }
  std::vector<size_t> order(moments.range_count());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);  // as threads take them
  for (const size_t range : order) {
    moments.add(range, *batch, static_cast<uint32_t>(begin - first),
                static_cast<uint32_t>(end - first), groups);
  }
}

/// The moments of batches of random sizes, in chunks of random sizes. Some chunks have sums of
/// their own, as another process adds them.
Moments streamed(std::mt19937_64& random, const Rows& rows, const Shape& shape,
                 const std::vector<double>& upper, size_t* ranges = nullptr) {
  ColumnMoments whole(shape.columns, shape.group_count, upper);
  std::vector<uint32_t> all_groups(shape.group_count);
  std::iota(all_groups.begin(), all_groups.end(), uint32_t{0});
  for (size_t begin = 0; begin < rows.entries.size();) {
    const size_t chunk_end = std::min(rows.entries.size(), begin + 1 + random() % 25);
    ColumnMoments part(shape.columns, shape.group_count, upper);
    const bool apart = random() % 2 == 0;
    while (begin < chunk_end) {
      const size_t end = std::min(chunk_end, begin + 1 + random() % 9);
      add_batch(random, rows, begin, end, shape, apart ? part : whole);
      begin = end;
    }
    if (apart) {
      part.end_chunk();
      whole.add_sums(part.sums(), all_groups);
    } else {
      whole.end_chunk();
    }
  }
  if (ranges != nullptr) *ranges = whole.range_count();
  std::vector<uint64_t> sizes(shape.group_count);
  for (const uint32_t group : rows.groups) ++sizes[group];
  return whole.moments(sizes);
}

/// Values of each group and column, zeros and clipping included.
std::vector<std::vector<double>> dense(const Rows& rows, const Shape& shape,
                                       const std::vector<double>& upper) {
  std::vector<std::vector<double>> all(size_t{shape.group_count} * shape.columns);
  for (size_t i = 0; i < rows.entries.size(); ++i) {
    const size_t first = size_t{rows.groups[i]} * shape.columns;
    for (uint32_t column = 0; column < shape.columns; ++column) all[first + column].push_back(0);
    for (const auto& [column, value] : rows.entries[i]) {
      const size_t at = first + static_cast<size_t>(column);
      all[at].back() = upper.empty() ? value : std::min(value, upper[at]);
    }
  }
  return all;
}

void expect_near(const Moments& found, const std::vector<std::vector<double>>& values,
                 size_t* inexact = nullptr) {
  ASSERT_EQ(found.nonzeros.size(), values.size());
  ASSERT_EQ(found.total.size(), values.size());
  ASSERT_EQ(found.squared_deviation.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto expected = testing::exact_moments(values[i]);
    long double squares = 0, sizes = 0;
    for (const double value : values[i]) {
      squares += static_cast<long double>(value) * static_cast<long double>(value);
      sizes += std::abs(static_cast<long double>(value));
    }
    ASSERT_EQ(found.nonzeros[i], expected.nonzeros) << i;
    ASSERT_TRUE(testing::near(found.total[i], expected.total, expected.integers, sizes))
        << i << ": " << found.total[i];
    ASSERT_TRUE(testing::near(found.squared_deviation[i], expected.squared_deviation,
                              expected.integers, squares))
        << i << ": " << found.squared_deviation[i] << " is not " << expected.squared_deviation;
    if (inexact != nullptr) *inexact += expected.integers ? 0 : 1;
  }
}

TEST(ColumnMoments, AreThoseOfTheDefinition) {
  size_t inexact = 0;
  for (uint64_t number = 1; number <= 150; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    const Shape shape{1 + static_cast<uint32_t>(random() % 30),
                      1 + static_cast<uint32_t>(random() % 4),
                      random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64};
    const Rows rows = random_rows(random, shape, random() % 60);
    std::vector<double> upper;
    if (random() % 2 == 0) {
      for (size_t i = 0; i < size_t{shape.group_count} * shape.columns; ++i) {
        upper.push_back(random() % 3 == 0 ? 0.0 : static_cast<double>(random() % 400) / 10);
      }
    }
    expect_near(streamed(random, rows, shape, upper), dense(rows, shape, upper), &inexact);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(inexact, 100U);
}

TEST(ColumnMoments, OfSeveralRanges) {
  for (uint64_t number = 1; number <= 6; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    const Shape shape{
        4096 * static_cast<uint32_t>(1 + number % 3) + static_cast<uint32_t>(number / 3),
        1 + static_cast<uint32_t>(number % 2),
        number <= 3 ? DataType::kFloat64 : DataType::kFloat32};
    const Rows rows = random_rows(random, shape, 20);
    size_t ranges = 0;
    const Moments found = streamed(random, rows, shape, {}, &ranges);
    EXPECT_EQ(ranges, (shape.columns + 4095) / 4096);
    expect_near(found, dense(rows, shape, {}));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Integers whose sums exceed 64 bits are added like other values.
TEST(ColumnMoments, SumsThatWouldOverflow) {
  const Shape shape{1, 1, DataType::kFloat64};
  Rows rows;
  for (int i = 0; i < 5; ++i) rows.entries.push_back({{0, 2147483647.0 - i}});
  rows.groups.assign(5, 0);
  std::mt19937_64 random(1);
  const Moments found = streamed(random, rows, shape, {});
  EXPECT_EQ(found.nonzeros[0], 5);
  EXPECT_EQ(found.total[0], 5 * 2147483645.0);
  EXPECT_NEAR(found.squared_deviation[0], 10, 1e-3);
}

TEST(ColumnMoments, OfNothing) {
  std::mt19937_64 random(1);
  const Moments none = streamed(random, {}, {3, 2, DataType::kFloat32}, {});
  EXPECT_EQ(none.nonzeros, std::vector<int64_t>(6));
  EXPECT_EQ(none.squared_deviation, std::vector<double>(6));
  EXPECT_EQ(streamed(random, {}, {0, 1, DataType::kFloat32}, {}).total.size(), 0U);
}

}  // namespace
}  // namespace penstock::pipeline
