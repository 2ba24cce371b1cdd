#include "format/stacked/stacked_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "format/handle_access.h"
#include "format/joined/columns.h"
#include "format/numbered_table.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

class StackedTable final : public NumberedTable {
 public:
  StackedTable(std::string uri, std::vector<StoredTablePtr> parts)
      : uri_(std::move(uri)), parts_(std::move(parts)) {
    std::vector<NamedTable> tables;
    for (const StoredTablePtr& part : parts_) {
      first_row_.push_back(rows_);
      rows_ += part->row_count();
      tables.push_back({part->uri(), HandleAccess::table(part)});
    }
    std::vector<ColumnInfo> infos = joined_columns(tables);
    std::erase_if(infos, [](const ColumnInfo& info) { return info.name == kRowNumbers; });
    for (const ColumnInfo& info : infos) {
      if (info.type == DataType::kAny) throw InvalidArgument(mixed_types(info.name, tables));
      infos_.emplace(info.name, info);
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
  static bool has(const StoredTable& part, const std::string& name) {
    const auto& columns = part.columns();
    return std::any_of(columns.begin(), columns.end(),
                       [&](const ColumnInfo& column) { return column.name == name; });
  }

  static Column read(const StoredTable& part, const std::string& name, uint64_t begin,
                     uint64_t end) {
    ReadOptions options;
    options.columns = {name};
    options.joinids = RowSelection();
    if (begin < end) {
      options.joinids = RowSelection::range(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    }
    return std::move(part.read(options).columns.at(0));
  }

  Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const override {
    std::vector<ColumnPart> columns;
    const StoredTable* with_column = nullptr;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const bool is_there = has(*parts_[i], name);
      if (is_there && with_column == nullptr) with_column = parts_[i].get();
      const uint64_t from = std::max(begin, first_row_[i]);
      const uint64_t to = std::min(end, first_row_[i] + parts_[i]->row_count());
      if (from >= to) continue;
      ColumnPart& part = columns.emplace_back(ColumnPart{std::nullopt, to - from});
      if (!is_there) continue;
      part.column = read(*parts_[i], name, from - first_row_[i], to - first_row_[i]);
    }
    // One part must say what form the values have.
    if (std::none_of(columns.begin(), columns.end(),
                     [](const ColumnPart& part) { return part.column.has_value(); })) {
      columns.push_back({read(*with_column, name, 0, 0), 0});
    }
    Column all = concatenate_parts(infos_.at(name), std::move(columns));
    if (all.is_variable()) table::encode_strings(all);
    if (all.categories) table::narrow_codes(all);
    return all;
  }

  const std::string uri_;
  std::vector<StoredTablePtr> parts_;
  std::vector<uint64_t> first_row_;
  std::map<std::string, ColumnInfo> infos_;
  uint64_t rows_ = 0;
};

}  // namespace

StoredTablePtr stack_tables(std::string uri, std::vector<StoredTablePtr> parts) {
  if (parts.empty()) throw InvalidArgument("there is no table to stack");
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_shared<const StackedTable>(std::move(uri), std::move(parts));
}

}  // namespace penstock::format
