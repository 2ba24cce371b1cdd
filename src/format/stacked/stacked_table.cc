#include "format/stacked/stacked_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "format/numbered_table.h"
#include "table/column_operations.h"
#include "table/merge_categories.h"

namespace penstock::format {
namespace {

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
    if (columns[0].categories) table::merge_categories(columns);
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
