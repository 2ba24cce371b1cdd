#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Values of an enumerated (dictionary) column, shared by all copies of the column.
struct Categories {
  DataType type = DataType::kStringUtf8;
  bool ordered = false;
  /// True if there is no stored enumeration: plain strings that got codes when they were read.
  bool from_strings = false;
  std::vector<std::string> strings;  ///< when `type` is a string or bytes type
  std::vector<std::byte> values;     ///< fixed-size values otherwise, size_of(type) each
  size_t size() const;
};

/// Description of a column, without its values.
struct ColumnInfo {
  std::string name;
  DataType type = DataType::kInt64;  ///< of the values; of the categories if enumerated
  bool is_index = false;             ///< a dimension of the SOMA DataFrame
  bool nullable = false;
  bool enumerated = false;
  bool ordered = false;  ///< whether the enumeration is ordered
  uint64_t stored_bytes = 0;
};

/// A column that is not stored, for filters. Every row has the same value.
struct ConstantColumn {
  ColumnInfo info;
  std::optional<std::string> text;  ///< the value of a string column; absent: null
};

/// One column in memory: fixed-size values, strings, or codes into categories.
///
///   fixed    `data` holds size() values of `type`
///   strings  `offsets` (size() + 1 of them) cut `data`; `type` is a string or bytes type
///   codes    `categories` is set; `data` holds size() codes of `code_type`, an integer type, as
///            stored or narrowed; `type` is the categories' type. A null has code -1 (if unsigned,
///            the largest of the type) and validity 0
///   validity one byte a row, 1 = present; empty when nothing is null
struct Column {
  std::string name;
  DataType type = DataType::kInt64;
  DataType code_type = DataType::kInt32;  ///< codes only
  std::vector<std::byte> data;
  std::vector<uint64_t> offsets;
  std::vector<uint8_t> validity;
  std::shared_ptr<const Categories> categories;
  uint64_t row_count = 0;

  uint64_t size() const noexcept { return row_count; }
  bool is_variable() const noexcept { return !offsets.empty(); }
  bool is_valid(uint64_t row) const noexcept { return validity.empty() || validity[row] != 0; }

  template <typename T>
  std::span<const T> values() const noexcept {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  std::string_view string_at(uint64_t row) const noexcept {
    return {reinterpret_cast<const char*>(data.data()) + offsets[row],
            offsets[row + 1] - offsets[row]};
  }
  int64_t code_at(uint64_t row) const;  ///< -1 for null
};

/// Columns of equal length, in the requested order.
struct Table {
  std::vector<Column> columns;
  uint64_t row_count = 0;

  const Column* find(std::string_view name) const noexcept;
  const Column& at(std::string_view name) const;  ///< throws NotFound, which lists the columns
};

}  // namespace penstock
