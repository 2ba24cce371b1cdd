#include "format/anndata/column_parts.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/concat.h"
#include "base/types/visit_type.h"
#include "table/column_operations.h"

namespace penstock::format::anndata {

std::shared_ptr<const Categories> read_categories(const chunked::Array& stored, bool ordered,
                                                  unsigned threads) {
  const chunked::ArrayInfo& info = stored.info();
  const uint64_t count = info.shape[0];
  const auto expect_new = [&](bool is_new, uint64_t i) {
    if (is_new) return;
    throw CorruptData(concat("categories must differ, number ", i, " came before, in ", info.path));
  };
  std::unordered_set<std::string_view> known;  // looks into `made`
  auto made = std::make_shared<Categories>();
  made->ordered = ordered;
  if (info.strings == chunked::StringForm::kNone) {
    made->type = info.type;
    const Buffer values = chunked::read_values(stored, 0, count, threads);
    made->values.assign(values.data(), values.data() + values.size());
    const size_t bytes = size_of(info.type);
    const auto* const begin = reinterpret_cast<const char*>(made->values.data());
    for (uint64_t i = 0; i < count; ++i) {
      expect_new(known.emplace(begin + i * bytes, bytes).second, i);
    }
    return made;
  }
  made->type = DataType::kStringUtf8;
  const auto strings = chunked::read_strings(stored, 0, count, threads);
  made->strings.reserve(count);  // so that they stay where `known` looks
  for (uint64_t i = 0; i < count; ++i) {
    made->strings.emplace_back(
        reinterpret_cast<const char*>(strings.characters.data()) + strings.offsets[i],
        strings.offsets[i + 1] - strings.offsets[i]);
    expect_new(known.insert(made->strings.back()).second, i);
  }
  return made;
}

Column coded_column(const Buffer& codes, DataType code_type,
                    std::shared_ptr<const Categories> categories, const std::string& name,
                    const std::string& place) {
  Column column;
  column.name = name;
  column.code_type = code_type;
  column.type = categories->type;
  column.categories = std::move(categories);
  put_values(codes, column);
  visit_integer(code_type, [&](auto identity) {
    using Code = typename decltype(identity)::type;
    const auto stored = codes.as<Code>();
    column.row_count = stored.size();
    const auto is_missing = [](Code code) { return static_cast<int64_t>(code) == -1; };
    if (!std::is_signed_v<Code> || std::none_of(stored.begin(), stored.end(), is_missing)) return;
    column.validity.resize(stored.size());
    for (size_t i = 0; i < stored.size(); ++i) column.validity[i] = !is_missing(stored[i]);
  });
  with_place([&] { table::narrow_codes(column); }, [&] { return place; });
  return column;
}

void put_strings(chunked::Strings&& strings, Column& column) {
  column.type = DataType::kStringUtf8;
  column.data = std::move(strings.characters);
  column.offsets = std::move(strings.offsets);
}

void put_values(const Buffer& values, Column& column) {
  column.data.assign(values.data(), values.data() + values.size());
}

}  // namespace penstock::format::anndata
