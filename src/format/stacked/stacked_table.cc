#include "format/stacked/stacked_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/concat.h"
#include "format/numbered_table.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

/// Category of a code, as bytes.
std::string category_at(const Categories& categories, size_t code) {
  if (!categories.strings.empty()) return categories.strings[code];
  const size_t size = size_of(categories.type);
  return {reinterpret_cast<const char*>(categories.values.data()) + code * size, size};
}

/// Gives enumerated columns the union of their categories, in order of first appearance.
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

class StackedTable final : public NumberedTable {
 public:
  StackedTable(std::string uri, std::vector<StoredTablePtr> parts)
      : uri_(std::move(uri)), parts_(std::move(parts)) {
    std::vector<ColumnInfo> infos = parts_[0]->columns();
    std::erase_if(infos, [](const ColumnInfo& info) { return info.name == kRowNumbers; });
    for (const StoredTablePtr& part : parts_) {
      first_row_.push_back(rows_);
      rows_ += part->row_count();
      for (ColumnInfo& info : infos) merge(*part, info);
    }
    set_columns(std::move(infos), rows_);
  }

  const std::string& uri() const override { return uri_; }
  std::string content() const override {
    std::string text = "stacked\n";
    for (const StoredTablePtr& part : parts_) {
      const std::string own = part->content();
      if (own.empty()) return {};
      text += own;
    }
    return text;
  }

 private:
  static void merge(const StoredTable& part, ColumnInfo& info) {
    const auto& columns = part.columns();
    const auto found = std::find_if(columns.begin(), columns.end(), [&](const ColumnInfo& column) {
      return column.name == info.name;
    });
    if (found == columns.end() || found->type != info.type ||
        found->enumerated != info.enumerated) {
      throw CorruptData(concat("each table must have the column ", info.name,
                               found == columns.end() ? "" : " in the same type", ", in ",
                               part.uri()));
    }
    info.nullable |= found->nullable;
    info.ordered &= found->ordered;
    info.stored_bytes += found->stored_bytes;
  }

  Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const override {
    std::vector<Column> columns;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const uint64_t from = std::max(begin, first_row_[i]);
      const uint64_t to = std::min(end, first_row_[i] + parts_[i]->row_count());
      if (from >= to && !(columns.empty() && i + 1 == parts_.size())) continue;
      ReadOptions options;
      options.columns = {name};
      if (from < to) {
        options.joinids = RowSelection::range(static_cast<int64_t>(from - first_row_[i]),
                                              static_cast<int64_t>(to - first_row_[i]));
      } else {
        options.joinids = RowSelection();
      }
      columns.push_back(std::move(parts_[i]->read(options).columns.at(0)));
      const auto& categories = columns.back().categories;
      if (categories && categories->from_strings) table::decode_strings(columns.back());
    }
    if (columns[0].categories) merge_categories(columns);
    Column all = table::concatenate(std::move(columns));
    if (all.is_variable()) table::encode_strings(all);
    if (all.categories) table::narrow_codes(all);
    return all;
  }

  const std::string uri_;
  std::vector<StoredTablePtr> parts_;
  std::vector<uint64_t> first_row_;
  uint64_t rows_ = 0;
};

}  // namespace

StoredTablePtr stack_tables(std::string uri, std::vector<StoredTablePtr> parts) {
  if (parts.empty()) throw InvalidArgument("there is no table to stack");
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_shared<const StackedTable>(std::move(uri), std::move(parts));
}

}  // namespace penstock::format
