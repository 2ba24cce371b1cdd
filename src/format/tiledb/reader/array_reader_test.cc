// Compares cells of the golden stores with TileDB's (tests/data/table_golden.txt, made by
// tests/golden/make_table_golden.py), and reads the same stores damaged.

#include "format/tiledb/reader/array_reader.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "base/hash/hex.h"
#include "base/testing/test_data.h"
#include "base/testing/test_seed.h"
#include "io/memory_store.h"
#include "table/filter_expression.h"

namespace penstock::format::tiledb {
namespace {

const std::string kStores = test_data("tiledb_golden/");

std::string text_cell(std::string_view value) {
  while (!value.empty() && value.back() == '\0') value.remove_suffix(1);
  return "'" + hex(std::as_bytes(std::span(value)));
}

template <typename T>
std::string number(const Column& column, uint64_t row) {
  return std::to_string(column.values<T>()[row]);
}

std::string cell_text(const Column& column, uint64_t row) {
  if (!column.is_valid(row)) return "-";
  if (column.categories) {
    return text_cell(column.categories->strings.at(static_cast<size_t>(column.code_at(row))));
  }
  if (column.is_variable()) return text_cell(column.string_at(row));
  const size_t width = size_of(column.type);
  if (is_floating(column.type)) {
    return "x" + hex(std::span(column.data).subspan(row * width, width));
  }
  switch (column.type) {
    case DataType::kInt8:
      return number<int8_t>(column, row);
    case DataType::kUInt8:
    case DataType::kBool:
      return number<uint8_t>(column, row);
    case DataType::kInt16:
      return number<int16_t>(column, row);
    case DataType::kUInt16:
      return number<uint16_t>(column, row);
    case DataType::kInt32:
      return number<int32_t>(column, row);
    case DataType::kUInt32:
      return number<uint32_t>(column, row);
    case DataType::kUInt64:
      return number<uint64_t>(column, row);
    default:
      return number<int64_t>(column, row);
  }
}

std::vector<std::string> row_texts(const Table& table) {
  std::vector<std::string> rows;
  for (uint64_t row = 0; row < table.row_count; ++row) {
    std::string text;
    for (const Column& column : table.columns) {
      text += (text.empty() ? "" : " ") + cell_text(column, row);
    }
    rows.push_back(std::move(text));
  }
  return rows;
}

struct GoldenTable {
  std::string name;
  uint64_t end = 0;
  std::vector<std::string> columns;
  std::vector<std::string> rows;
};

std::vector<GoldenTable> golden_tables() {
  std::ifstream file(test_data("table_golden.txt"));
  std::vector<GoldenTable> tables;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("array ")) {
      tables.back().rows.push_back(line);
      continue;
    }
    std::istringstream words(line.substr(6));
    GoldenTable table;
    words >> table.name >> table.end;
    for (std::string column; words >> column;) table.columns.push_back(column);
    tables.push_back(std::move(table));
  }
  return tables;
}

TEST(ArrayReader, CellsOfTheGoldenStores) {
  const auto tables = golden_tables();
  ASSERT_GT(tables.size(), 30U);
  for (const GoldenTable& golden : tables) {
    for (const unsigned threads : {1U, 3U}) {
      SCOPED_TRACE(golden.name + " at " + std::to_string(golden.end));
      const auto reader =
          ArrayReader::open(io::file_store(), kStores + golden.name, {0, golden.end}, threads);
      const Table table = reader->read({.columns = golden.columns});
      auto rows = row_texts(table);
      if (!reader->schema().dense()) std::sort(rows.begin(), rows.end());
      EXPECT_EQ(rows, golden.rows);
      EXPECT_EQ(reader->cell_count(), golden.rows.size());
    }
  }
}

TEST(ArrayReader, RowsAreRestrictedByTiles) {
  const auto reader = ArrayReader::open(io::file_store(), kStores + "consolidated");
  const Table all = reader->read({.columns = {"row", "column", "value"}});
  const TestSeed seed(1);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto first = static_cast<int64_t>(random() % 40);
    const auto last = first + static_cast<int64_t>(random() % 12);
    const RowSelection rows = RowSelection::range(first, last);
    for (const size_t dimension : {0U, 1U}) {
      const Table some = reader->read(
          {.columns = {"row", "column", "value"}, .rows = &rows, .row_dimension = dimension});
      std::vector<std::string> wanted;
      const auto texts = row_texts(all);
      const auto coordinates = all.columns[dimension].values<int64_t>();
      for (size_t i = 0; i < texts.size(); ++i) {
        if (rows.contains(coordinates[i])) wanted.push_back(texts[i]);
      }
      EXPECT_EQ(row_texts(some), wanted);
    }
  }
}

TEST(ArrayReader, FiltersKeepWhatTheyKeep) {
  const auto reader = ArrayReader::open(io::file_store(), kStores + "deletes");
  const auto filter = table::FilterExpression::parse("value > 2.0 and column < 13");
  const auto bound = filter.bind(reader->columns());
  const Table some = reader->read({.columns = {"value"}, .filter = &bound});
  const Table all = reader->read({.columns = {"value", "column"}});
  std::vector<std::string> wanted;
  for (uint64_t i = 0; i < all.row_count; ++i) {
    const bool kept = all.columns[0].type == DataType::kFloat32
                          ? all.columns[0].values<float>()[i] > 2
                          : all.columns[0].values<double>()[i] > 2;
    if (kept && all.columns[1].values<int64_t>()[i] < 13) {
      wanted.push_back(cell_text(all.columns[0], i));
    }
  }
  EXPECT_EQ(row_texts(some), wanted);
}

TEST(ArrayReader, UnknownColumnsAndArrays) {
  const auto reader = ArrayReader::open(io::file_store(), kStores + "consolidated");
  EXPECT_THROW(reader->read({.columns = {"nothing"}}), NotFound);
  EXPECT_THROW(ArrayReader::open(io::file_store(), kStores + "nothing"), NotFound);
  EXPECT_THROW(ArrayReader::open(io::file_store(), kStores + "encrypted"), Unsupported);
}

TEST(ArrayReader, DamagedStoresAreErrors) {
  const TestSeed seed(2);
  std::mt19937 random(seed);
  size_t errors = 0;
  for (const char* name : {"consolidated", "deletes", "dense", "enumerated", "evolved", "hilbert",
                           "strings", "types"}) {
    io::MemoryStore whole;
    whole.copy_tree(*io::file_store(), kStores + name);
    for (const std::string& path : whole.paths()) {
      const Buffer bytes = whole.read_all(path);
      if (bytes.size() == 0) continue;
      for (int round = 0; round < 8; ++round) {
        auto store = std::make_shared<io::MemoryStore>();
        store->copy_tree(whole, kStores + name);
        const size_t place = random() % bytes.size();
        if (round % 2 == 0) {
          store->truncate(path, place);
        } else {
          std::vector<std::byte> changed(bytes.span().begin(), bytes.span().end());
          changed[place] ^= static_cast<std::byte>(1U << random() % 8);
          store->put(path, changed);
        }
        try {
          const auto reader = ArrayReader::open(store, kStores + name, {}, 2);
          reader->read({});
          reader->cell_count();
        } catch (const Error& error) {
          EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
          ++errors;
        }
      }
    }
  }
  EXPECT_GT(errors, 100U);
}

}  // namespace
}  // namespace penstock::format::tiledb
