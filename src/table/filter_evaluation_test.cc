#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/testing/test_seed.h"
#include "table/filter_expression.h"
#include "table/testing/column_values.h"
#include "table/value_set.h"

namespace penstock::table {
namespace {

using testing::categories_of;
using testing::code_column;
using testing::fixed_column;
using testing::schema_of;
using testing::string_column;

std::vector<int> rows(const Table& table, const std::string& text) {
  std::vector<uint8_t> mask(table.row_count, 9);
  FilterExpression::parse(text).bind(schema_of(table)).evaluate(table, mask);
  std::vector<int> kept;
  for (size_t i = 0; i < mask.size(); ++i) {
    EXPECT_LE(mask[i], 1);
    if (mask[i] == 1) kept.push_back(static_cast<int>(i));
  }
  return kept;
}

using Rows = std::vector<int>;

Table small_table() {
  Table table;
  table.row_count = 4;
  Column nullable = fixed_column<int32_t>("n", DataType::kInt32, {1, 2, 3, 4});
  nullable.validity = {1, 0, 1, 1};
  table.columns = {
      fixed_column<int8_t>("i", DataType::kInt8, {-128, -1, 0, 127}),
      fixed_column<double>("f", DataType::kFloat64,
                           {0.0, -0.0, std::numeric_limits<double>::quiet_NaN(), 2}),
      string_column("s", {"a", std::nullopt, "", "\xC3\xA9"}),
      code_column("c", {0, 1, -1, 2}, categories_of({"x", "y", "z"}, false)),
      code_column("o", {2, 0, -1, 1}, categories_of({"lo", "mid", "hi"}, true)),
      std::move(nullable),
  };
  return table;
}

TEST(FilterEvaluation, NullsAreInNoComparison) {
  const Table table = small_table();
  EXPECT_EQ(rows(table, "n != 1"), (Rows{2, 3}));
  EXPECT_EQ(rows(table, "not n == 1"), (Rows{2, 3}));
  EXPECT_EQ(rows(table, "n not in [1]"), (Rows{2, 3}));
  EXPECT_EQ(rows(table, "n == None"), (Rows{1}));
  EXPECT_EQ(rows(table, "n == None or n == 3"), (Rows{1, 2}));
  EXPECT_EQ(rows(table, "not (n == 1 and s == 'a')"), (Rows{2, 3}));
  EXPECT_EQ(rows(table, "s != 'q'"), (Rows{0, 2, 3}));
  EXPECT_EQ(rows(table, "i == None"), Rows{});
  EXPECT_EQ(rows(table, "i != None"), (Rows{0, 1, 2, 3}));
}

TEST(FilterEvaluation, CategoriesCompareByCode) {
  const Table table = small_table();
  EXPECT_EQ(rows(table, "c == 'x'"), (Rows{0}));
  EXPECT_EQ(rows(table, "c != 'nowhere'"), (Rows{0, 1, 3}));
  EXPECT_EQ(rows(table, "c == 'nowhere'"), Rows{});
  EXPECT_EQ(rows(table, "not c != 'nowhere'"), Rows{});
  EXPECT_EQ(rows(table, "o < 'hi'"), (Rows{1, 3}));
  EXPECT_EQ(rows(table, "o >= 'mid'"), (Rows{0, 3}));
  EXPECT_EQ(rows(table, "o >= 'nowhere'"), Rows{});
  EXPECT_THROW(rows(table, "c < 'y'"), InvalidArgument);
}

TEST(FilterEvaluation, NumbersThatAreNoCategoryHaveNoOrder) {
  auto categories = std::make_shared<Categories>();
  categories->type = DataType::kInt8;
  categories->ordered = true;
  categories->values = {std::byte{4}, std::byte{2}, std::byte{1}};
  Table table;
  table.row_count = 3;
  table.columns = {code_column("k", {0, 1, 2}, categories)};
  EXPECT_EQ(rows(table, "k >= 2"), (Rows{1, 2}));
  for (const char* number : {"3", "1.5", "300", "-1e999"}) {
    for (const char* op : {"<", "<=", ">", ">=", "=="}) {
      const std::string text = std::string("k ") + op + number;
      EXPECT_EQ(rows(table, text), Rows{}) << text;
    }
    EXPECT_EQ(rows(table, std::string("not k < ") + number), Rows{}) << number;
    EXPECT_EQ(rows(table, std::string("k != ") + number), (Rows{0, 1, 2})) << number;
  }
}

TEST(FilterEvaluation, CodedStringsAreStrings) {
  Table table;
  table.row_count = 3;
  auto categories = std::make_shared<Categories>(*categories_of({"b", "a", "c"}, false));
  categories->from_strings = true;
  table.columns = {code_column("s", {0, 1, 2}, categories)};
  EXPECT_EQ(rows(table, "s < 'b'"), (Rows{1}));
  EXPECT_EQ(rows(table, "s >= 'aa'"), (Rows{0, 2}));
}

TEST(FilterEvaluation, NumbersCompareByValue) {
  const Table table = small_table();
  EXPECT_EQ(rows(table, "i == -1.9"), Rows{});
  EXPECT_EQ(rows(table, "i != 127.5"), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows(table, "i > 126.5"), (Rows{3}));
  EXPECT_EQ(rows(table, "i < -0.5"), (Rows{0, 1}));
  EXPECT_EQ(rows(table, "not i <= -0.5"), (Rows{2, 3}));
  EXPECT_EQ(rows(table, "i >= 127.5"), Rows{});
  EXPECT_EQ(rows(table, "i < 127.5"), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows(table, "i < 128 and i > -1e999"), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows(table, "i == 128 or i in [128, 1.5]"), Rows{});
  // Nulls stay out, also of what every cell is.
  EXPECT_EQ(rows(table, "n < 1e30"), rows(table, "n != None"));
  EXPECT_EQ(rows(table, "not n == 0.5"), rows(table, "n != None"));
  EXPECT_EQ(rows(table, "f == 0"), (Rows{0, 1}));
  EXPECT_EQ(rows(table, "f in [0.0]"), (Rows{0}));
  EXPECT_EQ(rows(table, "f != 2"), (Rows{0, 1, 2}));
  EXPECT_EQ(rows(table, "not f < 2"), (Rows{3}));
  for (const char* text :
       {"i == 'a'", "i in ['a']", "s == 1", "f == 'a'", "n < None", "s in [None]"}) {
    EXPECT_THROW(rows(table, text), InvalidArgument) << text;
  }
}

TEST(FilterEvaluation, UnknownColumnsAreListed) {
  try {
    rows(small_table(), "i == 1 or tissue == 'x'");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_NE(std::string(error.what()).find("i, f, s, c, o, n"), std::string::npos);
  }
}

TEST(FilterEvaluation, ColumnsInOrderOfAppearance) {
  const auto filter = FilterExpression::parse("b == 1 and (a == 2 or b in [3]) and 1 < c < 2");
  EXPECT_EQ(filter.columns(), (std::vector<std::string>{"b", "a", "c"}));
}

TEST(FilterEvaluation, AgreesWithAScalarReference) {
  const TestSeed seed(1);
  std::mt19937 random(seed);
  const std::vector<std::string> ops = {"<", "<=", ">", ">=", "==", "!="};
  const std::vector<std::function<bool(int64_t, int64_t)>> functions = {
      std::less<>{},          std::less_equal<>{}, std::greater<>{},
      std::greater_equal<>{}, std::equal_to<>{},   std::not_equal_to<>{}};
  for (int round = 0; round < 300; ++round) {
    const size_t count = random() % 70;
    std::vector<int16_t> values;
    for (size_t i = 0; i < count; ++i) values.push_back(static_cast<int16_t>(random() % 7 - 3));
    Table table;
    table.row_count = count;
    table.columns = {fixed_column("x", DataType::kInt16, values)};
    const size_t a = random() % 6, b = random() % 6;
    const int low = static_cast<int>(random() % 7) - 3, high = static_cast<int>(random() % 7) - 3;
    const std::string text = "not (x " + ops[a] + " " + std::to_string(low) + " or x " + ops[b] +
                             " " + std::to_string(high) + ")";
    Rows wanted;
    for (size_t i = 0; i < count; ++i) {
      if (!(functions[a](values[i], low) || functions[b](values[i], high))) {
        wanted.push_back(static_cast<int>(i));
      }
    }
    EXPECT_EQ(rows(table, text), wanted) << text;
  }
}

std::string random_comparison(std::mt19937_64& random) {
  const std::vector<std::string> choices = {
      "x == 1",      "x != 0",         "x in [0, 2]",       "s == 'a'",     "s != 'a'",
      "s in ['a']",  "s not in ['a']", "s > 'A'",           "s == None",    "s != None",
      "none == 'a'", "none != 'a'",    "none not in ['a']", "none == None", "gone < 3",
      "gone >= 3",   "gone != None",   "gone not in [3]",   "x == None",    "gone == None"};
  return choices[random() % choices.size()];
}

std::string random_filter(std::mt19937_64& random, int depth) {
  const uint64_t kind = depth == 0 ? 3 : random() % 4;
  if (kind == 3) return random_comparison(random);
  if (kind == 2) return "not (" + random_filter(random, depth - 1) + ")";
  return "(" + random_filter(random, depth - 1) + (kind == 0 ? " and " : " or ") +
         random_filter(random, depth - 1) + ")";
}

TEST(FilterEvaluation, ConstantsAreColumnsOfOneValue) {
  Table stored, whole;
  stored.row_count = whole.row_count = 4;
  stored.columns = {fixed_column<int16_t>("x", DataType::kInt16, {0, 1, 2, 3})};
  Column gone = fixed_column<int64_t>("gone", DataType::kInt64, {0, 0, 0, 0});
  gone.validity = {0, 0, 0, 0};
  whole.columns = {stored.columns[0], string_column("s", {"a", "a", "a", "a"}),
                   string_column("none", std::vector<std::optional<std::string>>(4)), gone};
  std::vector<ConstantColumn> constants = {{testing::info_of(whole.columns[1]), "a"},
                                           {testing::info_of(whole.columns[2]), std::nullopt},
                                           {testing::info_of(gone), std::nullopt}};
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  int decided = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_filter(random, 3);
    const Rows wanted = rows(whole, text);
    const BoundFilter bound = FilterExpression::parse(text).bind(schema_of(stored), constants);
    std::vector<uint8_t> mask(4, 9);
    bound.evaluate(stored, mask);
    Rows kept;
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) kept.push_back(static_cast<int>(i));
    }
    ASSERT_EQ(kept, wanted) << text;
    if (const auto constant = bound.constant()) {
      ++decided;
      ASSERT_EQ(wanted.size(), *constant ? 4U : 0U) << text;
    }
    for (const std::string& column : bound.columns()) ASSERT_EQ(column, "x") << text;
  }
  EXPECT_GT(decided, 500);
}

TEST(FilterEvaluation, ConstantsAreChecked) {
  ColumnInfo info;
  info.name = "source";
  info.type = DataType::kStringUtf8;
  info.enumerated = true;
  const std::vector<ConstantColumn> constants = {{info, "here"}};
  const auto bind = [&](const std::string& text) {
    return FilterExpression::parse(text).bind({}, constants);
  };
  EXPECT_EQ(bind("source == 'here'").constant(), true);
  EXPECT_EQ(bind("source == 'there' or source == 'here'").constant(), true);
  EXPECT_EQ(bind("source == 'there'").constant(), false);
  EXPECT_THROW(bind("source == 3"), InvalidArgument);
  EXPECT_THROW(bind("source < 'z'"), InvalidArgument);
  // Conditions that are already decided are still checked.
  EXPECT_THROW(bind("source == 'there' and other == 1"), NotFound);
  info.type = DataType::kInt32;
  const std::vector<ConstantColumn> number = {{info, "here"}};
  EXPECT_THROW(FilterExpression::parse("source == 3").bind({}, number), InvalidArgument);
}

TEST(BitsSet, HoldsWhatWasInserted) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  BitsSet set;
  EXPECT_FALSE(set.contains(0));
  std::vector<uint64_t> values = {0, ~uint64_t{0}, 1};
  for (int i = 0; i < 10'000; ++i) values.push_back(random());
  for (const uint64_t value : values) set.insert(value);
  for (const uint64_t value : values) set.insert(value);
  EXPECT_EQ(set.size(), values.size());
  for (const uint64_t value : values) EXPECT_TRUE(set.contains(value));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(set.contains(random()));
}

}  // namespace
}  // namespace penstock::table
