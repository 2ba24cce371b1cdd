#include "format/joined/columns.h"

#include <gtest/gtest.h>

#include <sstream>

#include "format/joined/testing/random_experiment.h"

namespace penstock::format {
namespace {

using namespace testing;

/// A table of one column, and of one row without the column.
NamedTable table_of(const std::string& name, std::vector<Column> columns) {
  MemoryExperiment cells;
  cells.obs_count = columns.empty() ? 1 : columns[0].size();
  cells.obs = std::move(columns);
  return {name, open_in_memory(std::move(cells)).obs()};
}

const ColumnInfo& last_of(const std::vector<ColumnInfo>& columns) { return columns.back(); }

constexpr DataType kNumbers[] = {DataType::kInt8,   DataType::kInt16,  DataType::kInt32,
                                 DataType::kInt64,  DataType::kUInt8,  DataType::kUInt16,
                                 DataType::kUInt32, DataType::kUInt64, DataType::kFloat32,
                                 DataType::kFloat64};

// numpy.promote_types of each two of these types.
constexpr const char* kPromoted[] = {
    "int8 int16 int32 int64 int16 int32 int64 float64 float32 float64",
    "int16 int16 int32 int64 int16 int32 int64 float64 float32 float64",
    "int32 int32 int32 int64 int32 int32 int64 float64 float64 float64",
    "int64 int64 int64 int64 int64 int64 int64 float64 float64 float64",
    "int16 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64",
    "int32 int32 int32 int64 uint16 uint16 uint32 uint64 float32 float64",
    "int64 int64 int64 int64 uint32 uint32 uint32 uint64 float64 float64",
    "float64 float64 float64 float64 uint64 uint64 uint64 uint64 float64 float64",
    "float32 float32 float64 float64 float32 float32 float64 float64 float32 float64",
    "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64"};

TEST(JoinedColumns, NumbersGetTheTypeOfNumpy) {
  for (size_t a = 0; a < std::size(kNumbers); ++a) {
    std::istringstream row(kPromoted[a]);
    for (const DataType b : kNumbers) {
      std::string promoted;
      row >> promoted;
      const auto columns = joined_columns({table_of("x", {number_column("n", kNumbers[a], {1})}),
                                           table_of("y", {number_column("n", b, {1})})});
      EXPECT_EQ(name_of(last_of(columns).type), promoted) << name_of(kNumbers[a]) << name_of(b);
    }
  }
}

TEST(JoinedColumns, OtherKindsHaveNoCommonType) {
  const Column columns[] = {
      number_column("c", DataType::kInt8, {1}), number_column("c", DataType::kBool, {1}),
      number_column("c", DataType::kDateTimeDay, {1}), text_column("c", {"a"})};
  for (const Column& a : columns) {
    for (const Column& b : columns) {
      const auto joined = joined_columns({table_of("x", {a}), table_of("y", {b})});
      EXPECT_EQ(last_of(joined).type, a.type == b.type ? a.type : DataType::kAny);
      const auto three =
          joined_columns({table_of("x", {a}), table_of("y", {b}), table_of("z", {a})});
      EXPECT_EQ(last_of(three).type, last_of(joined).type);
    }
  }
}

std::shared_ptr<const Categories> kinds(std::vector<std::string> texts, bool ordered) {
  auto categories = std::make_shared<Categories>();
  categories->strings = std::move(texts);
  categories->ordered = ordered;
  return categories;
}

Column joined_of(const std::vector<std::vector<Column>>& parts) {
  std::vector<NamedTable> tables;
  tables.reserve(parts.size());
  for (const auto& columns : parts) tables.push_back(table_of("x", columns));
  const ColumnInfo info = last_of(joined_columns(tables));
  std::vector<ColumnPart> values;
  for (const auto& columns : parts) {
    ColumnPart& part = values.emplace_back();
    if (!columns.empty()) part.column = columns[0];
    part.row_count = columns.empty() ? 1 : columns[0].size();
  }
  Column joined = concatenate_parts(info, std::move(values));
  EXPECT_EQ(info.ordered, joined.categories && joined.categories->ordered);
  return joined;
}

TEST(JoinedColumns, CategoriesStayOrderedIfAllHaveTheSame) {
  const Column low_high = category_column("c", {0, 1}, kinds({"low", "high"}, true));
  const Column high_low = category_column("c", {0, 1}, kinds({"high", "low"}, true));
  const Column more = category_column("c", {2}, kinds({"low", "high", "highest"}, true));
  const Column unordered = category_column("c", {0}, kinds({"low", "high"}, false));
  const auto ordered = [](const Column& column) { return column.categories->ordered; };
  EXPECT_TRUE(ordered(joined_of({{low_high}, {low_high}})));
  EXPECT_TRUE(ordered(joined_of({{low_high}, {}, {low_high}})));
  EXPECT_TRUE(ordered(joined_of({{}, {low_high}})));
  EXPECT_FALSE(ordered(joined_of({{low_high}, {high_low}})));
  EXPECT_FALSE(ordered(joined_of({{low_high}, {more}})));
  EXPECT_FALSE(ordered(joined_of({{more}, {low_high}})));
  EXPECT_FALSE(ordered(joined_of({{low_high}, {unordered}})));
  const Column joined = joined_of({{high_low}, {more}, {}});
  EXPECT_EQ(joined.categories->strings, (std::vector<std::string>{"high", "low", "highest"}));
  EXPECT_EQ(values_of(joined), (Values{"high", "low", "highest", std::nullopt}));
}

TEST(JoinedColumns, TextsOfAnEnumerationAndPlainTextsAreTexts) {
  const Column coded = category_column("c", {1, 0}, kinds({"a", "b"}, false));
  const Column plain = text_column("c", {"b", "c"});
  for (const auto& parts : {std::vector<std::vector<Column>>{{coded}, {plain}, {}},
                            std::vector<std::vector<Column>>{{plain}, {coded}, {}}}) {
    const Column joined = joined_of(parts);
    EXPECT_TRUE(!joined.categories || joined.categories->from_strings);
    EXPECT_EQ(values_of(joined).size(), 5U);
    EXPECT_EQ(values_of(joined)[4], std::nullopt);
  }
  EXPECT_EQ(values_of(joined_of({{coded}, {plain}})), (Values{"b", "a", "b", "c"}));
}

TEST(JoinedColumns, MissingColumnsAreNullForFilters) {
  const auto missing = missing_columns({table_of("x", {text_column("a", {"u"})}),
                                        table_of("y", {number_column("b", DataType::kInt8, {1})})});
  ASSERT_EQ(missing.size(), 2U);
  ASSERT_EQ(missing[0].size(), 1U);
  EXPECT_EQ(missing[0][0].info.name, "b");
  EXPECT_EQ(missing[0][0].text, std::nullopt);
  ASSERT_EQ(missing[1].size(), 1U);
  EXPECT_EQ(missing[1][0].info.name, "a");
}

}  // namespace
}  // namespace penstock::format
