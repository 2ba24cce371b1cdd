#include <penstock/error.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "table/filter_expression.h"
#include "table/testing/column_values.h"

// Any bytes as a filter must throw InvalidArgument or NotFound, or evaluate to zeros and ones. A
// row that a filter keeps is not kept by its negation.

namespace {

using namespace penstock;
using namespace penstock::table;

Table make_table() {
  using testing::fixed_column;
  Table table;
  table.row_count = 5;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  table.columns.push_back(fixed_column<int64_t>("i", DataType::kInt64, {-1, 0, 1, 2, 1 << 20}));
  table.columns.push_back(fixed_column<uint8_t>("u", DataType::kUInt8, {0, 1, 2, 254, 255}));
  table.columns.push_back(
      fixed_column<double>("f", DataType::kFloat64, {-0.0, 0.0, 1.5, nan, 1e300}));
  table.columns.push_back(fixed_column<float>("g", DataType::kFloat32, {0.1F, 0, 1, 2, -1e38F}));
  table.columns.push_back(fixed_column<uint8_t>("b", DataType::kBool, {0, 1, 0, 1, 1}));
  table.columns.push_back(fixed_column<int64_t>("t", DataType::kDateTimeSecond, {0, 1, 2, 3, 4}));
  table.columns.push_back(
      testing::string_column("s", {"", "a", std::nullopt, "b", std::string("a\0b", 3)}));
  table.columns.push_back(testing::code_column("c", {0, 1, 2, -1, 0},
                                               testing::categories_of({"a", "", "lung"}, false)));
  table.columns.push_back(testing::code_column("o", {2, 1, 0, -1, 1},
                                               testing::categories_of({"lo", "mid", "hi"}, true)));
  return table;
}

std::vector<uint8_t> mask_of(std::string_view text, const Table& table) {
  std::vector<uint8_t> mask(table.row_count, 7);
  FilterExpression::parse(text).bind(testing::schema_of(table)).evaluate(table, mask);
  for (const uint8_t value : mask) {
    if (value > 1) std::abort();
  }
  return mask;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Table table = make_table();
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto kept = mask_of(text, table);
    // The line break ends a comment; inside parentheses it is white space.
    const auto others = mask_of("not (" + text + "\n)", table);
    for (size_t row = 0; row < kept.size(); ++row) {
      if ((kept[row] & others[row]) != 0) std::abort();
    }
  } catch (const InvalidArgument&) {
  } catch (const NotFound&) {
  }
  return 0;
}
