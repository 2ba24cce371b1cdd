#include "table/merge_categories.h"

#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace penstock::table {
namespace {

/// Category of a code, as bytes.
std::string category_at(const Categories& categories, size_t code) {
  if (!categories.strings.empty()) return categories.strings[code];
  const size_t size = size_of(categories.type);
  return {reinterpret_cast<const char*>(categories.values.data()) + code * size, size};
}

}  // namespace

void merge_categories(std::vector<Column>& columns) {
  auto all = std::make_shared<Categories>();
  all->type = columns[0].type;
  all->ordered = true;
  std::unordered_map<std::string, int32_t> code_of;
  for (Column& column : columns) {
    const Categories& own = *column.categories;
    all->ordered &= own.ordered && own.size() == columns[0].categories->size();
    std::vector<int32_t> new_codes;
    for (size_t code = 0; code < own.size(); ++code) {
      const std::string value = category_at(own, code);
      const auto [place, is_new] = code_of.try_emplace(value, static_cast<int32_t>(code_of.size()));
      new_codes.push_back(place->second);
      all->ordered &= place->second == static_cast<int32_t>(code);
      if (!is_new) continue;
      if (is_string(all->type)) {
        all->strings.push_back(value);
      } else {
        const auto* const bytes = reinterpret_cast<const std::byte*>(value.data());
        all->values.insert(all->values.end(), bytes, bytes + value.size());
      }
    }
    std::vector<std::byte> codes(column.size() * sizeof(int32_t));
    for (uint64_t row = 0; row < column.size(); ++row) {
      const int64_t old = column.code_at(row);
      const int32_t code = old < 0 ? -1 : new_codes[static_cast<size_t>(old)];
      std::memcpy(codes.data() + row * sizeof(code), &code, sizeof(code));
    }
    column.data = std::move(codes);
    column.code_type = DataType::kInt32;
  }
  for (Column& column : columns) column.categories = all;
}

}  // namespace penstock::table
