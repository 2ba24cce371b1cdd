#include "format/anndata/table_writer.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/testing/test_seed.h"
#include "format/anndata/stored_axis.h"
#include "format/memory/memory_table.h"
#include "format/zarr/hierarchy.h"
#include "io/memory_store.h"

namespace penstock::format::anndata {
namespace {

using Random = std::mt19937_64;

template <typename T>
Column numbers(Random& random, std::string name, DataType type, uint64_t rows, bool missing) {
  Column column;
  column.name = std::move(name);
  column.type = type;
  column.row_count = rows;
  column.data.resize(rows * sizeof(T));
  for (uint64_t row = 0; row < rows; ++row) {
    auto value = static_cast<T>(random());
    if (type == DataType::kBool) value = static_cast<T>(random() % 2);
    std::memcpy(column.data.data() + row * sizeof(T), &value, sizeof(T));
  }
  if (missing) {
    for (uint64_t row = 0; row < rows; ++row) column.validity.push_back(random() % 3 != 0);
  }
  return column;
}

constexpr const char* kTexts[] = {"", "B cell", "naïve ☃", "a", "longer text than that"};

std::string random_text(Random& random) { return kTexts[random() % 5]; }

Column strings(Random& random, std::string name, uint64_t rows, bool missing) {
  Column column;
  column.name = std::move(name);
  column.type = DataType::kStringUtf8;
  column.row_count = rows;
  column.offsets = {0};
  for (uint64_t row = 0; row < rows; ++row) {
    const std::string text = random_text(random) + std::to_string(row);
    for (const char letter : text) column.data.push_back(static_cast<std::byte>(letter));
    column.offsets.push_back(column.data.size());
    if (missing) column.validity.push_back(random() % 3 != 0);
  }
  return column;
}

Column codes(Random& random, std::string name, uint64_t rows, bool of_numbers) {
  auto categories = std::make_shared<Categories>();
  categories->ordered = random() % 2 == 0;
  if (of_numbers) {
    categories->type = DataType::kInt64;
    categories->values.resize(3 * sizeof(int64_t), std::byte{7});
    categories->values[0] = std::byte{1};  // categories differ
    categories->values[8] = std::byte{2};
  } else {
    categories->strings = {"x", "", "☃"};
  }
  Column column;
  column.name = std::move(name);
  column.type = categories->type;
  column.code_type = DataType::kInt8;
  column.row_count = rows;
  for (uint64_t row = 0; row < rows; ++row) {
    const auto code = static_cast<int8_t>(random() % 4) - 1;
    column.data.push_back(static_cast<std::byte>(code));
    column.validity.push_back(code != -1);
  }
  column.categories = std::move(categories);
  return column;
}

void expect_same(const Column& got, const Column& wanted) {
  SCOPED_TRACE(wanted.name);
  ASSERT_EQ(got.size(), wanted.size());
  EXPECT_EQ(got.type, wanted.type);
  for (uint64_t row = 0; row < wanted.size(); ++row) {
    ASSERT_EQ(got.is_valid(row), wanted.is_valid(row));
    if (!wanted.is_valid(row)) continue;
    if (wanted.categories) {
      ASSERT_EQ(got.code_at(row), wanted.code_at(row));
    } else if (wanted.is_variable()) {
      const std::string_view text =
          got.is_variable()
              ? got.string_at(row)
              : std::string_view(got.categories->strings[static_cast<size_t>(got.code_at(row))]);
      ASSERT_EQ(text, wanted.string_at(row));
    } else {
      const size_t size = size_of(wanted.type);
      ASSERT_EQ(std::memcmp(got.data.data() + row * size, wanted.data.data() + row * size, size),
                0);
    }
  }
  if (wanted.categories) {
    EXPECT_EQ(got.categories->strings, wanted.categories->strings);
    EXPECT_EQ(got.categories->values, wanted.categories->values);
    EXPECT_EQ(got.categories->ordered, wanted.categories->ordered);
  }
}

TEST(TableWriter, TablesAreReadBack) {
  for (uint64_t own = 0; own < 20; ++own) {
    const TestSeed seed(own);
    Random random(seed);
    const uint64_t rows = own == 0 ? 0 : random() % 200;
    const std::vector<Column> columns = {
        strings(random, "obs_names", rows, false),
        numbers<int64_t>(random, "int64", DataType::kInt64, rows, false),
        numbers<uint8_t>(random, "uint8, missing", DataType::kUInt8, rows, true),
        numbers<uint8_t>(random, "bool", DataType::kBool, rows, false),
        numbers<uint8_t>(random, "bool, missing", DataType::kBool, rows, true),
        numbers<float>(random, "float32", DataType::kFloat32, rows, false),
        numbers<double>(random, "float64", DataType::kFloat64, rows, false),
        strings(random, "text", rows, false),
        strings(random, "text, missing", rows, true),
        codes(random, "category", rows, false),
        codes(random, "category of numbers", rows, true),
    };
    const auto table = make_memory_table("memory", columns, rows);
    const auto objects = std::make_shared<io::MemoryStore>();
    write_table(*table, "obs_names", [&](const std::string& path, auto bytes) {
      objects->put("store/obs/" + path, bytes);
    });
    const auto group = zarr::open_zarr(objects, "store/obs");
    ASSERT_NE(group, nullptr);
    const auto read = open_axis(group, "obs_names", 1);
    ASSERT_EQ(read->row_count(), rows);
    ASSERT_EQ(read->columns().size(), columns.size() + 1);
    const Table values = read->read({});
    for (const Column& column : columns) expect_same(values.at(column.name), column);
  }
}

TEST(TableWriter, ATypeWithoutAnEncodingIsAnError) {
  Column dates;
  dates.name = "day";
  dates.type = DataType::kDateTimeDay;
  dates.row_count = 1;
  dates.data.resize(8);
  const auto table = make_memory_table("memory", {dates}, 1);
  EXPECT_THROW(write_table(*table, "obs_names", [](const std::string&, auto) {}), Unsupported);
}

}  // namespace
}  // namespace penstock::format::anndata
