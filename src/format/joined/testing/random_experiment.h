#pragma once

#include <penstock/join.h>
#include <penstock/memory.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/types/visit_type.h"
#include "table/column_operations.h"

// Random experiments in memory, with their contents as plain values, for tests of joins.

namespace penstock::format::testing {

using Random = std::mt19937_64;
/// Values of a column as text, absent for null. Numbers are printed as float64.
using Values = std::vector<std::optional<std::string>>;

struct RandomExperiment {
  std::map<std::string, Values> obs, var;
  uint64_t obs_count = 0;
  std::vector<std::optional<std::string>> genes;  ///< names, in the order of var
  std::vector<std::vector<double>> x;             ///< by cell, by gene
  std::optional<Experiment> experiment;
};

/// Every row of a column as text, for any form of column.
inline Values values_of(const Column& column) {
  const auto number = [](DataType type, const std::vector<std::byte>& data, uint64_t at) {
    return visit_number(type, [&](auto identity) {
      using T = typename decltype(identity)::type;
      return std::to_string(static_cast<double>(reinterpret_cast<const T*>(data.data())[at]));
    });
  };
  Values values;
  for (uint64_t row = 0; row < column.size(); ++row) {
    if (!column.is_valid(row)) {
      values.emplace_back();
    } else if (column.categories) {
      const auto code = static_cast<uint64_t>(column.code_at(row));
      values.emplace_back(is_string(column.type)
                              ? column.categories->strings.at(code)
                              : number(column.type, column.categories->values, code));
    } else if (column.is_variable()) {
      values.emplace_back(std::string(column.string_at(row)));
    } else {
      values.emplace_back(number(column.type, column.data, row));
    }
  }
  return values;
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

/// Numbers of a type; a negative number is null.
inline Column number_column(const std::string& name, DataType type,
                            const std::vector<int>& numbers) {
  Column column;
  column.name = name;
  column.type = type;
  column.row_count = numbers.size();
  const bool any_null = std::any_of(numbers.begin(), numbers.end(), [](int n) { return n < 0; });
  visit_number(stored_type(type), [&](auto identity) {
    using T = typename decltype(identity)::type;
    std::vector<T> values;
    for (const int number : numbers) {
      values.push_back(static_cast<T>(std::max(number, 0)));
      if (any_null) column.validity.push_back(number < 0 ? 0 : 1);
    }
    column.data = bytes_of(values);
  });
  return column;
}

inline Column text_column(const std::string& name, const Values& texts) {
  Column column;
  column.name = name;
  column.type = DataType::kStringUtf8;
  column.row_count = texts.size();
  column.offsets.push_back(0);
  const bool any_null = std::any_of(texts.begin(), texts.end(), [](auto& text) { return !text; });
  for (const auto& text : texts) {
    for (const char c : text.value_or("")) column.data.push_back(static_cast<std::byte>(c));
    column.offsets.push_back(column.data.size());
    if (any_null) column.validity.push_back(text ? 1 : 0);
  }
  return column;
}

/// Codes into categories; -1 is null. The categories are texts, or numbers of a type.
inline Column category_column(const std::string& name, const std::vector<int>& codes,
                              std::shared_ptr<const Categories> categories) {
  Column column = number_column(name, DataType::kInt8, codes);
  for (size_t row = 0; row < codes.size(); ++row) {
    if (codes[row] < 0) column.data[row] = std::byte{0xFF};
  }
  column.code_type = DataType::kInt8;
  column.type = categories->type;
  column.categories = std::move(categories);
  return column;
}

inline std::vector<int> random_numbers(Random& random, uint64_t count, int end) {
  const bool any_null = random() % 2 == 0;
  std::vector<int> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<int>(random() % static_cast<unsigned>(end)));
    if (any_null && random() % 5 == 0) numbers.back() = -1;
  }
  return numbers;
}

inline DataType random_number_type(Random& random) {
  constexpr DataType kTypes[] = {DataType::kInt8,   DataType::kUInt8,  DataType::kInt16,
                                 DataType::kUInt16, DataType::kInt32,  DataType::kUInt32,
                                 DataType::kInt64,  DataType::kUInt64, DataType::kFloat32,
                                 DataType::kFloat64};
  return kTypes[random() % std::size(kTypes)];
}

/// Columns of every form: n (numbers), flag (booleans), kind (texts of an enumeration), level
/// (numbers, of an enumeration in some experiments), text (texts).
inline std::vector<Column> random_columns(Random& random, uint64_t count, bool all) {
  std::vector<Column> columns;
  const auto draw = [&] { return all || random() % 4 != 0; };
  if (draw()) {
    columns.push_back(
        number_column("n", random_number_type(random), random_numbers(random, count, 10)));
  }
  if (draw()) {
    columns.push_back(number_column("flag", DataType::kBool, random_numbers(random, count, 2)));
  }
  if (draw()) {
    auto kinds = std::make_shared<Categories>();
    kinds->strings = {"a", "b", "c", "d"};
    kinds->ordered = random() % 2 == 0;
    if (random() % 2 == 0) std::shuffle(kinds->strings.begin(), kinds->strings.end(), random);
    if (random() % 2 == 0) kinds->strings.pop_back();
    const int end = static_cast<int>(kinds->strings.size());
    columns.push_back(category_column("kind", random_numbers(random, count, end), kinds));
  }
  if (draw()) {
    const DataType type = random_number_type(random);
    const auto numbers = random_numbers(random, count, 3);
    if (random() % 3 == 0) {
      columns.push_back(number_column("level", type, numbers));
    } else {
      auto levels = std::make_shared<Categories>();
      levels->type = type;
      levels->values = number_column("", type, {2, 0, 1}).data;
      columns.push_back(category_column("level", numbers, levels));
    }
  }
  if (draw()) {
    Values texts;
    for (const int number : random_numbers(random, count, 300)) {
      texts.push_back(number < 0 ? std::nullopt : std::optional("t" + std::to_string(number % 40)));
    }
    columns.push_back(text_column("text", texts));
    if (random() % 2 == 0) table::encode_strings(columns.back());
  }
  std::shuffle(columns.begin(), columns.end(), random);
  return columns;
}

template <typename T>
MemoryArray array_of(DataType type, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {type, reinterpret_cast<const std::byte*>(owner->data()), owner->size(), owner};
}

inline MatrixInMemory random_matrix(Random& random, RandomExperiment& made) {
  std::vector<float> data;
  std::vector<int32_t> indices, indptr{0};
  for (auto& row : made.x) {
    for (size_t gene = 0; gene < row.size(); ++gene) {
      if (random() % 2 == 0) continue;
      row[gene] = static_cast<double>(1 + random() % 99);
      data.push_back(static_cast<float>(row[gene]));
      indices.push_back(static_cast<int32_t>(gene));
    }
    indptr.push_back(static_cast<int32_t>(data.size()));
  }
  MemoryArray numbers = array_of(DataType::kFloat32, data);
  if (random() % 2 == 0) {
    numbers = array_of(DataType::kUInt16, std::vector<uint16_t>(data.begin(), data.end()));
  }
  return CsrInMemory{std::move(numbers),
                     array_of(DataType::kInt32, indices),
                     array_of(DataType::kInt32, indptr),
                     made.x.size(),
                     made.genes.size(),
                     {}};
}

/// An experiment with up to 30 cells and some of the genes g0 to g11, g0 among them. It has a
/// measurement RNA with a layer X. `all_columns`: obs and var have each of random_columns.
inline RandomExperiment random_experiment(Random& random, bool all_columns) {
  RandomExperiment made;
  made.obs_count = random() % 31;
  for (int gene = 0; gene < 12; ++gene) {
    if (gene == 0 || random() % 2 == 0) made.genes.emplace_back("g" + std::to_string(gene));
  }
  for (uint64_t nameless = random() % 3; nameless > 0; --nameless) made.genes.emplace_back();
  std::shuffle(made.genes.begin(), made.genes.end(), random);
  made.x.assign(made.obs_count, std::vector<double>(made.genes.size()));
  MemoryExperiment cells;
  cells.uri = "memory";
  cells.obs = random_columns(random, made.obs_count, all_columns);
  cells.obs_count = made.obs_count;
  MemoryMeasurement rna{
      "RNA", random_columns(random, made.genes.size(), all_columns), made.genes.size(), {}};
  for (const Column& column : cells.obs) made.obs[column.name] = values_of(column);
  for (const Column& column : rna.var) made.var[column.name] = values_of(column);
  rna.var.push_back(text_column("var_id", made.genes));
  if (random() % 2 == 0) table::encode_strings(rna.var.back());
  rna.layers.emplace_back("X", random_matrix(random, made));
  cells.measurements.push_back(std::move(rna));
  made.experiment = open_in_memory(std::move(cells));
  return made;
}

}  // namespace penstock::format::testing
