#include "table/column_operations.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <random>

#include "base/testing/test_seed.h"
#include "table/testing/column_values.h"

namespace penstock::table {
namespace {

using Values = std::vector<std::optional<std::string>>;

/// Every row as text, absent for null, for any form of column.
Values values_of(const Column& column) {
  Values values;
  for (uint64_t row = 0; row < column.size(); ++row) {
    if (!column.is_valid(row)) {
      values.push_back(std::nullopt);
    } else if (column.categories) {
      values.push_back(column.categories->strings.at(static_cast<size_t>(column.code_at(row))));
    } else if (column.is_variable()) {
      values.push_back(std::string(column.string_at(row)));
    } else {
      values.push_back(std::to_string(column.values<int32_t>()[row]));
    }
  }
  return values;
}

Values random_values(std::mt19937& random, size_t count, unsigned distinct) {
  Values values;
  for (size_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<unsigned>(random() % (distinct + 1));
    values.push_back(drawn == distinct
                         ? std::nullopt
                         : std::optional(std::string(drawn % 5, 'x') + std::to_string(drawn)));
  }
  return values;
}

TEST(ColumnOperations, FilterAndTakeStrings) {
  const TestSeed seed(1);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const size_t count = random() % 50;
    const Values values = random_values(random, count, 9);
    Column column = testing::string_column("s", values);
    if (round % 2 == 0) encode_strings(column);
    EXPECT_EQ(values_of(column), values);
    std::vector<uint8_t> mask;
    Values kept;
    std::vector<uint64_t> positions;
    Values taken;
    for (size_t i = 0; i < count; ++i) {
      mask.push_back(random() % 2);
      if (mask.back() != 0) kept.push_back(values[i]);
      positions.push_back(random() % count);
      taken.push_back(values[positions.back()]);
    }
    EXPECT_EQ(values_of(filter_rows(column, mask)), kept);
    EXPECT_EQ(values_of(take_rows(column, positions)), taken);
  }
}

TEST(ColumnOperations, ConcatenateUnitesCategories) {
  const TestSeed seed(2);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    Values all;
    std::vector<Column> parts;
    for (unsigned part = 0; part < 1 + random() % 5; ++part) {
      const Values values =
          random_values(random, random() % 40, 3 + static_cast<unsigned>(random() % 400));
      all.insert(all.end(), values.begin(), values.end());
      parts.push_back(testing::string_column("s", values));
      if (random() % 3 != 0) encode_strings(parts.back());
    }
    const Column joined = concatenate(std::move(parts));
    EXPECT_EQ(joined.size(), all.size());
    EXPECT_EQ(values_of(joined), all);
  }
}

TEST(ColumnOperations, ConcatenateFixed) {
  std::vector<Column> parts;
  parts.push_back(testing::fixed_column<int32_t>("n", DataType::kInt32, {1, 2}));
  parts.push_back(testing::fixed_column<int32_t>("n", DataType::kInt32, {}));
  parts.push_back(testing::fixed_column<int32_t>("n", DataType::kInt32, {3}));
  parts.back().validity = {0};
  EXPECT_EQ(values_of(concatenate(std::move(parts))), (Values{"1", "2", std::nullopt}));
  std::vector<Column> other;
  other.push_back(testing::fixed_column<int32_t>("n", DataType::kInt32, {1}));
  other.push_back(testing::fixed_column<int64_t>("n", DataType::kInt64, {1}));
  EXPECT_THROW(concatenate(std::move(other)), Internal);
}

TEST(ColumnOperations, UniqueStringsStayStrings) {
  Values values;
  for (int i = 0; i < 1000; ++i) values.push_back("cell " + std::to_string(i));
  Column column = testing::string_column("s", values);
  encode_strings(column);
  EXPECT_FALSE(column.categories);
  EXPECT_EQ(values_of(column), values);
}

TEST(ColumnOperations, CodesAreNarrowedAndChecked) {
  for (const size_t count : {3U, 127U, 128U, 200U, 32767U, 40000U}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    Column column = testing::fixed_column<uint32_t>("c", DataType::kUInt32,
                                                    {0, static_cast<uint32_t>(count - 1), 77777});
    column.code_type = DataType::kUInt32;
    column.categories = testing::categories_of(names, false);
    Column damaged = column;
    EXPECT_THROW(narrow_codes(damaged), CorruptData);
    column.validity = {1, 1, 0};
    narrow_codes(column);
    EXPECT_EQ(column.code_type, code_type_for(count));
    EXPECT_EQ(column.code_at(1), static_cast<int64_t>(count - 1));
    EXPECT_EQ(column.code_at(2), -1);
  }
}

TEST(Table, UnknownColumnsListWhatThereIs) {
  Table table;
  table.columns = {testing::fixed_column<int32_t>("one", DataType::kInt32, {}),
                   testing::fixed_column<int32_t>("two", DataType::kInt32, {})};
  EXPECT_EQ(table.find("three"), nullptr);
  EXPECT_EQ(table.at("two").name, "two");
  try {
    table.at("three");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_STREQ(error.what(), "there is no column 'three'; choose from one, two");
  }
}

}  // namespace
}  // namespace penstock::table
