#include "format/joined/columns.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "base/types/visit_type.h"
#include "table/column_operations.h"
#include "table/merge_categories.h"

namespace penstock::format {
namespace {

const ColumnInfo* find_column(const std::vector<ColumnInfo>& columns, const std::string& name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ColumnInfo& info) { return info.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

DataType signed_of(size_t bytes) {
  if (bytes > 4) return DataType::kInt64;
  return bytes > 2 ? DataType::kInt32 : bytes > 1 ? DataType::kInt16 : DataType::kInt8;
}

/// numpy's promotion of two types of numbers.
DataType common_number(DataType a, DataType b) {
  if (is_floating(b)) std::swap(a, b);
  if (is_floating(a)) {
    // float32 holds integers of up to 16 bits.
    const bool fits = is_floating(b) ? size_of(b) <= size_of(a) : size_of(b) <= 2;
    return fits ? a : DataType::kFloat64;
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) < size_of(b) ? b : a;
  const size_t unsigned_bytes = size_of(is_signed(a) ? b : a);
  if (unsigned_bytes == 8) return DataType::kFloat64;
  return signed_of(std::max(size_of(is_signed(a) ? a : b), 2 * unsigned_bytes));
}

DataType common_type(DataType a, DataType b) {
  const auto is_number = [](DataType type) { return is_integer(type) || is_floating(type); };
  if (a == b) return a;
  if (is_string(a) && is_string(b)) return DataType::kStringUtf8;
  return is_number(a) && is_number(b) ? common_number(a, b) : DataType::kAny;
}

std::vector<std::byte> converted(const std::vector<std::byte>& numbers, DataType from_type,
                                 DataType to_type) {
  std::vector<std::byte> result(numbers.size() / size_of(from_type) * size_of(to_type));
  visit_number(from_type, [&](auto from_identity) {
    using From = typename decltype(from_identity)::type;
    visit_number(to_type, [&](auto to_identity) {
      using To = typename decltype(to_identity)::type;
      const auto* from = reinterpret_cast<const From*>(numbers.data());
      auto* to = reinterpret_cast<To*>(result.data());
      for (size_t i = 0; i < numbers.size() / sizeof(From); ++i) to[i] = static_cast<To>(from[i]);
    });
  });
  return result;
}

/// Replaces codes by the values of their categories, which have a fixed size.
void decode_values(Column& column) {
  const size_t bytes = size_of(column.type);
  const auto& values = column.categories->values;
  std::vector<std::byte> data(column.row_count * bytes);
  for (uint64_t row = 0; row < column.row_count; ++row) {
    const int64_t code = column.code_at(row);
    if (code < 0) continue;
    std::memcpy(data.data() + row * bytes, values.data() + static_cast<size_t>(code) * bytes,
                bytes);
  }
  column.data = std::move(data);
  column.categories.reset();
}

/// Gives a column the form that it has in all parts: the type of `info`, and categories that can be
/// merged.
void unify(const ColumnInfo& info, Column& column) {
  const DataType own_type = column.type;
  column.type = info.type;
  if (is_string(info.type)) {
    if (!column.categories || info.enumerated) return;
    auto plain = std::make_shared<Categories>(*column.categories);
    plain->type = info.type;
    plain->ordered = false;
    plain->from_strings = true;
    column.categories = std::move(plain);
    return;
  }
  if (column.categories && !info.enumerated) {
    column.type = own_type;
    decode_values(column);
    column.type = info.type;
  }
  if (own_type == info.type) return;
  if (column.categories) {
    auto categories = std::make_shared<Categories>(*column.categories);
    categories->values = converted(categories->values, own_type, info.type);
    categories->type = info.type;
    column.categories = std::move(categories);
  } else {
    column.data = converted(column.data, own_type, info.type);
  }
}

/// Tables whose categories are read at a time; threads that wait for a network.
constexpr unsigned kAhead = 16;

/// Whether a column that is ordered in all tables is so together: its categories are the same.
bool same_categories(const std::vector<NamedTable>& tables, const ColumnInfo& info) {
  std::vector<std::optional<Column>> found(tables.size());
  try {
    parallel_for(tables.size(), kAhead, [&](size_t i) {
      if (find_column(tables[i].table.columns(), info.name) == nullptr) return;
      Table none = tables[i].table.read({{info.name}, {}, RowSelection()});
      found[i] = std::move(none.columns.at(0));
      unify(info, *found[i]);
    });
  } catch (const CorruptData&) {
    return false;  // the error comes to whom the column is read for
  }
  std::erase(found, std::nullopt);
  return std::all_of(found.begin(), found.end(), [&](const std::optional<Column>& own) {
    const Categories &these = *own->categories, &first = *found[0]->categories;
    return these.strings == first.strings && these.values == first.values;
  });
}

/// A column of nulls in the form of another column.
Column nulls_like(const Column& like, uint64_t rows) {
  Column column = table::empty_like(like);
  column.row_count = rows;
  column.validity.assign(rows, 0);
  if (column.is_variable()) {
    column.offsets.assign(rows + 1, 0);
  } else {
    const auto filler = column.categories ? std::byte{0xFF} : std::byte{0};  // code -1
    column.data.assign(rows * table::row_bytes(column), filler);
  }
  return column;
}

}  // namespace

std::vector<ColumnInfo> joined_columns(const std::vector<NamedTable>& tables) {
  std::vector<ColumnInfo> joined;
  for (const NamedTable& part : tables) {
    for (const ColumnInfo& own : part.table.columns()) {
      if (find_column(joined, own.name) == nullptr) joined.push_back(own);
    }
  }
  const UnreadColumns unread = joined_unread(tables);
  std::erase_if(joined, [&](const ColumnInfo& info) { return unread.contains(info.name); });
  for (ColumnInfo& info : joined) {
    info.stored_bytes = 0;
    for (const NamedTable& part : tables) {
      const ColumnInfo* const own = find_column(part.table.columns(), info.name);
      if (own == nullptr) {
        info.nullable = true;
        continue;
      }
      info.type = common_type(info.type, own->type);
      info.is_index |= own->is_index;
      info.nullable |= own->nullable;
      info.enumerated &= own->enumerated;
      info.ordered &= own->ordered;
      info.stored_bytes += own->stored_bytes;
    }
    if (info.ordered && tables.size() > 1) {
      info.ordered = info.type != DataType::kAny && same_categories(tables, info);
    }
  }
  return joined;
}

UnreadColumns joined_unread(const std::vector<NamedTable>& tables) {
  UnreadColumns unread;
  for (const NamedTable& part : tables) {
    for (const auto& [name, reason] : part.table.unread_columns()) {
      unread.emplace(name, concat("column '", name, "' of '", part.name, "': ", reason));
    }
  }
  return unread;
}

std::vector<std::vector<ConstantColumn>> missing_columns(const std::vector<NamedTable>& tables) {
  std::vector<std::vector<ConstantColumn>> missing(tables.size());
  std::vector<ColumnInfo> known;  // as its first table has it
  for (const NamedTable& part : tables) {
    for (const ColumnInfo& own : part.table.columns()) {
      if (find_column(known, own.name) == nullptr) known.push_back(own);
    }
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const ColumnInfo& info : known) {
      if (find_column(tables[i].table.columns(), info.name) == nullptr) {
        missing[i].push_back({info, std::nullopt});
      }
    }
  }
  return missing;
}

std::string mixed_types(const std::string& column, const std::vector<NamedTable>& tables) {
  std::string types;
  for (const NamedTable& part : tables) {
    const ColumnInfo* const own = find_column(part.table.columns(), column);
    if (own == nullptr) continue;
    types += concat(types.empty() ? "" : ", ", name_of(own->type), " in '", part.name, "'");
  }
  return concat("column '", column, "' holds ", types,
                ", which make no column together; leave it out");
}

Column concatenate_parts(const ColumnInfo& info, std::vector<ColumnPart> parts) {
  std::optional<Column> form;
  for (ColumnPart& part : parts) {
    if (!part.column) continue;
    unify(info, *part.column);
    if (!form) form = table::empty_like(*part.column);
  }
  std::vector<Column> columns;
  columns.reserve(parts.size());
  for (ColumnPart& part : parts) {
    columns.push_back(part.column ? std::move(*part.column) : nulls_like(*form, part.row_count));
  }
  if (info.enumerated) table::merge_categories(columns);
  Column joined = table::concatenate(std::move(columns));
  if (info.enumerated) table::narrow_codes(joined);
  return joined;
}

Column repeated_names(const std::string& column, std::vector<std::string> names,
                      const std::vector<uint64_t>& counts) {
  std::vector<int32_t> codes;
  for (size_t i = 0; i < names.size(); ++i) {
    codes.insert(codes.end(), counts[i], static_cast<int32_t>(i));
  }
  auto categories = std::make_shared<Categories>();
  categories->strings = std::move(names);
  Column made;
  made.name = column;
  made.type = DataType::kStringUtf8;
  made.row_count = codes.size();
  const auto* const bytes = reinterpret_cast<const std::byte*>(codes.data());
  made.data.assign(bytes, bytes + codes.size() * sizeof(int32_t));
  made.categories = std::move(categories);
  table::narrow_codes(made);
  return made;
}

}  // namespace penstock::format
