#pragma once

#include <penstock/table.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Columns from literals, for the tests and the fuzz target of this folder.

namespace penstock::table::testing {

template <typename T>
Column fixed_column(const std::string& name, DataType type, const std::vector<T>& values) {
  Column column;
  column.name = name;
  column.type = type;
  column.row_count = values.size();
  column.data.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(column.data.data(), values.data(), column.data.size());
  return column;
}

/// An absent value is null.
inline Column string_column(const std::string& name,
                            const std::vector<std::optional<std::string>>& values,
                            DataType type = DataType::kStringUtf8) {
  Column column;
  column.name = name;
  column.type = type;
  column.offsets.push_back(0);
  for (const auto& value : values) {
    for (const char c : value.value_or("")) column.data.push_back(static_cast<std::byte>(c));
    column.offsets.push_back(column.data.size());
    column.validity.push_back(value.has_value() ? 1 : 0);
  }
  column.row_count = values.size();
  return column;
}

inline Column code_column(const std::string& name, const std::vector<int8_t>& codes,
                          std::shared_ptr<const Categories> categories) {
  Column column = fixed_column(name, categories->type, codes);
  column.code_type = DataType::kInt8;
  column.categories = std::move(categories);
  for (const int8_t code : codes) column.validity.push_back(code >= 0 ? 1 : 0);
  return column;
}

inline std::shared_ptr<const Categories> categories_of(std::vector<std::string> values,
                                                       bool ordered) {
  auto categories = std::make_shared<Categories>();
  categories->ordered = ordered;
  categories->strings = std::move(values);
  return categories;
}

inline ColumnInfo info_of(const Column& column) {
  ColumnInfo info;
  info.name = column.name;
  info.type = column.type;
  info.nullable = !column.validity.empty();
  info.enumerated = column.categories != nullptr && !column.categories->from_strings;
  info.ordered = info.enumerated && column.categories->ordered;
  return info;
}

inline std::vector<ColumnInfo> schema_of(const Table& table) {
  std::vector<ColumnInfo> infos;
  for (const Column& column : table.columns) infos.push_back(info_of(column));
  return infos;
}

}  // namespace penstock::table::testing
