#include "table/column_operations.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "base/concat.h"
#include "base/types/visit_type.h"

namespace penstock::table {
namespace {

template <typename T>
void gather_values(const Column& from, std::span<const uint64_t> positions, Column& to) {
  to.data.resize(positions.size() * sizeof(T));
  std::byte* out = to.data.data();
  for (const uint64_t row : positions) {
    std::memcpy(out, from.data.data() + row * sizeof(T), sizeof(T));
    out += sizeof(T);
  }
}

void gather_strings(const Column& from, std::span<const uint64_t> positions, Column& to) {
  uint64_t total = 0;
  for (const uint64_t row : positions) total += from.offsets[row + 1] - from.offsets[row];
  to.data.reserve(total);
  to.offsets.reserve(positions.size() + 1);
  for (const uint64_t row : positions) {
    const auto begin = from.data.begin() + static_cast<ptrdiff_t>(from.offsets[row]);
    to.data.insert(to.data.end(), begin,
                   begin + static_cast<ptrdiff_t>(from.offsets[row + 1] - from.offsets[row]));
    to.offsets.push_back(to.data.size());
  }
}

/// take_rows without its check.
Column gather(const Column& from, std::span<const uint64_t> positions) {
  Column to = empty_like(from);
  to.row_count = positions.size();
  if (!from.validity.empty()) {
    to.validity.reserve(positions.size());
    for (const uint64_t row : positions) to.validity.push_back(from.validity[row]);
  }
  if (from.is_variable()) {
    gather_strings(from, positions, to);
    return to;
  }
  switch (row_bytes(from)) {
    case 1:
      gather_values<uint8_t>(from, positions, to);
      break;
    case 2:
      gather_values<uint16_t>(from, positions, to);
      break;
    case 4:
      gather_values<uint32_t>(from, positions, to);
      break;
    default:
      gather_values<uint64_t>(from, positions, to);
      break;
  }
  return to;
}

std::vector<uint64_t> kept_positions(std::span<const uint8_t> mask) {
  std::vector<uint64_t> positions;
  positions.reserve(static_cast<size_t>(
      std::count_if(mask.begin(), mask.end(), [](uint8_t keep) { return keep != 0; })));
  for (size_t row = 0; row < mask.size(); ++row) {
    if (mask[row] != 0) positions.push_back(row);
  }
  return positions;
}

void check_rows(const Column& column, size_t rows) {
  if (column.size() != rows) {
    throw Internal(
        concat("a mask of ", rows, " rows for column '", column.name, "' of ", column.size()));
  }
}

/// Maps each code of `part` to the union's, for coded strings only.
void recode(Column& part, const std::shared_ptr<Categories>& all,
            std::unordered_map<std::string, int64_t>& code_of) {
  std::vector<int64_t> renamed;
  for (const std::string& value : part.categories->strings) {
    const auto next = static_cast<int64_t>(all->strings.size());
    const auto [place, is_new] = code_of.try_emplace(value, next);
    if (is_new) all->strings.push_back(value);
    renamed.push_back(place->second);
  }
  std::vector<std::byte> codes(part.row_count * sizeof(int64_t));
  for (uint64_t row = 0; row < part.row_count; ++row) {
    const int64_t old = part.code_at(row);
    const int64_t code = old < 0 ? -1 : renamed[static_cast<size_t>(old)];
    std::memcpy(codes.data() + row * sizeof(code), &code, sizeof(code));
  }
  part.data = std::move(codes);
  part.code_type = DataType::kInt64;
  part.categories = all;
}

bool same_categories(const Categories& a, const Categories& b) {
  return a.type == b.type && a.ordered == b.ordered && a.strings == b.strings &&
         a.values == b.values;
}

void unify_categories(std::vector<Column>& parts) {
  const auto& first = parts[0].categories;
  const bool all_same = std::all_of(parts.begin(), parts.end(), [&](const Column& part) {
    return part.categories == first ||
           (part.categories && first && part.code_type == parts[0].code_type &&
            same_categories(*part.categories, *first));
  });
  if (all_same) {
    for (Column& part : parts) part.categories = first;
    return;
  }
  auto all = std::make_shared<Categories>();
  all->type = parts[0].type;
  all->from_strings = true;
  std::unordered_map<std::string, int64_t> code_of;
  for (Column& part : parts) {
    if (part.categories && !part.categories->from_strings) {
      throw Internal("parts of column '" + part.name + "' differ in categories");
    }
    if (!part.categories) encode_strings(part);
    if (!part.categories) {
      // If one part keeps its strings, all do.
      for (Column& other : parts) decode_strings(other);
      return;
    }
  }
  for (Column& part : parts) recode(part, all, code_of);
}

}  // namespace

size_t row_bytes(const Column& column) {
  if (column.is_variable()) return 0;
  return size_of(column.categories ? column.code_type : column.type);
}

Column empty_like(const Column& like) {
  Column column;
  column.name = like.name;
  column.type = like.type;
  column.code_type = like.code_type;
  column.categories = like.categories;
  if (like.is_variable()) column.offsets.assign(1, 0);
  return column;
}

Column filter_rows(const Column& column, std::span<const uint8_t> mask) {
  check_rows(column, mask.size());
  return gather(column, kept_positions(mask));
}

Table filter_rows(const Table& table, std::span<const uint8_t> mask) {
  const std::vector<uint64_t> positions = kept_positions(mask);
  Table result;
  result.row_count = positions.size();
  for (const Column& column : table.columns) {
    check_rows(column, mask.size());
    result.columns.push_back(gather(column, positions));
  }
  return result;
}

Column take_rows(const Column& column, std::span<const uint64_t> positions) {
  for (const uint64_t position : positions) {
    if (position >= column.size()) {
      throw Internal(concat("row ", position, " of column '", column.name, "' of ", column.size()));
    }
  }
  return gather(column, positions);
}

Table take_rows(const Table& table, std::span<const uint64_t> positions) {
  Table result;
  for (const Column& column : table.columns) result.columns.push_back(take_rows(column, positions));
  result.row_count = positions.size();
  return result;
}

Column concatenate(std::vector<Column>&& parts) {
  if (parts.empty()) throw Internal("no columns to concatenate");
  if (parts.size() == 1) return std::move(parts[0]);
  unify_categories(parts);
  Column result = empty_like(parts[0]);
  uint64_t rows = 0, bytes = 0;
  bool validity = false;
  for (const Column& part : parts) {
    if (part.type != result.type || part.is_variable() != result.is_variable() ||
        (part.categories && part.code_type != result.code_type)) {
      throw Internal("parts of column '" + result.name + "' differ in type");
    }
    rows += part.row_count;
    bytes += part.data.size();
    validity |= !part.validity.empty();
  }
  result.data.reserve(bytes);
  if (result.is_variable()) result.offsets.reserve(rows + 1);
  if (validity) result.validity.reserve(rows);
  for (Column& part : parts) {
    if (part.is_variable()) {
      const uint64_t base = result.data.size();
      for (uint64_t row = 0; row < part.row_count; ++row) {
        result.offsets.push_back(base + part.offsets[row + 1]);
      }
    }
    result.data.insert(result.data.end(), part.data.begin(), part.data.end());
    if (validity && part.validity.empty()) {
      result.validity.insert(result.validity.end(), part.row_count, 1);
    } else {
      result.validity.insert(result.validity.end(), part.validity.begin(), part.validity.end());
    }
    result.row_count += part.row_count;
    part = Column();
  }
  if (result.categories && result.code_type == DataType::kInt64) narrow_codes(result);
  return result;
}

Table concatenate(std::vector<Table>&& parts) {
  if (parts.empty()) throw Internal("no tables to concatenate");
  Table result;
  for (const Table& part : parts) result.row_count += part.row_count;
  for (size_t column = 0; column < parts[0].columns.size(); ++column) {
    std::vector<Column> columns;
    columns.reserve(parts.size());
    for (Table& part : parts) columns.push_back(std::move(part.columns[column]));
    result.columns.push_back(concatenate(std::move(columns)));
  }
  return result;
}

void encode_strings(Column& column) {
  if (column.categories || !column.is_variable()) return;
  auto categories = std::make_shared<Categories>();
  categories->type = column.type;
  categories->from_strings = true;
  std::unordered_map<std::string_view, int32_t> code_of;
  std::vector<std::byte> codes(column.row_count * sizeof(int32_t));
  const uint64_t limit = std::max<uint64_t>(256, column.row_count / 2);
  for (uint64_t row = 0; row < column.row_count; ++row) {
    int32_t code = -1;
    if (column.is_valid(row)) {
      const auto [place, is_new] =
          code_of.try_emplace(column.string_at(row), static_cast<int32_t>(code_of.size()));
      if (is_new && (code_of.size() > limit || code_of.size() > (size_t{1} << 30))) return;
      if (is_new) categories->strings.emplace_back(place->first);
      code = place->second;
    }
    std::memcpy(codes.data() + row * sizeof(code), &code, sizeof(code));
  }
  column.data = std::move(codes);
  column.offsets.clear();
  column.code_type = DataType::kInt32;
  column.categories = std::move(categories);
  narrow_codes(column);
}

void decode_strings(Column& column) {
  if (!column.categories) return;
  std::vector<uint64_t> offsets(1, 0);
  offsets.reserve(column.row_count + 1);
  std::vector<std::byte> data;
  for (uint64_t row = 0; row < column.row_count; ++row) {
    const int64_t code = column.code_at(row);
    if (code >= 0) {
      const std::string& value = column.categories->strings.at(static_cast<size_t>(code));
      const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
      data.insert(data.end(), bytes, bytes + value.size());
    }
    offsets.push_back(data.size());
  }
  column.data = std::move(data);
  column.offsets = std::move(offsets);
  column.categories.reset();
}

DataType code_type_for(size_t count) {
  if (count <= 0x7F) return DataType::kInt8;
  if (count <= 0x7FFF) return DataType::kInt16;
  if (count <= 0x7FFFFFFF) return DataType::kInt32;
  return DataType::kInt64;
}

void narrow_codes(Column& column) {
  if (!column.categories) return;
  const size_t count = column.categories->size();
  const DataType narrow = code_type_for(count);
  std::vector<std::byte> codes(column.row_count * size_of(narrow));
  visit_integer(column.code_type, [&](auto from_identity) {
    using From = typename decltype(from_identity)::type;
    visit_integer(narrow, [&](auto to_identity) {
      using To = typename decltype(to_identity)::type;
      const std::span<const From> from = column.values<From>();
      for (uint64_t row = 0; row < column.row_count; ++row) {
        auto code = static_cast<To>(-1);
        if (column.is_valid(row)) {
          // As unsigned, -1 is the largest, so this also refuses negative codes.
          if (static_cast<uint64_t>(from[row]) >= count) {
            throw CorruptData(concat("code ", from[row], " of row ", row, " is none of the ", count,
                                     " categories of column '", column.name, "'"));
          }
          code = static_cast<To>(from[row]);
        }
        std::memcpy(codes.data() + row * sizeof(To), &code, sizeof(To));
      }
    });
  });
  column.data = std::move(codes);
  column.code_type = narrow;
}

}  // namespace penstock::table
