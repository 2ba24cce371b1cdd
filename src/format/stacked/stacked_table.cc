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
#include "table/filter_expression.h"

namespace penstock::format {
namespace {

class StackedTable final : public NumberedTable {
 public:
  StackedTable(std::string uri, std::vector<StoredTablePtr> parts)
      : uri_(std::move(uri)), parts_(std::move(parts)) {
    for (const StoredTablePtr& part : parts_) {
      first_row_.push_back(rows_);
      rows_ += part->row_count();
      tables_.push_back({part->uri(), HandleAccess::table(part)});
    }
    constants_ = missing_columns(tables_);
    std::vector<ColumnInfo> infos = joined_columns(tables_);
    std::erase_if(infos, [](const ColumnInfo& info) { return info.name == kRowNumbers; });
    for (const ColumnInfo& info : infos) infos_.emplace(info.name, info);
    set_columns(std::move(infos), rows_, joined_unread(tables_));
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

  Table read(const ReadOptions& options) const override {
    if (options.value_filter.empty()) return NumberedTable::read(options);
    ReadOptions chosen = options;
    chosen.joinids = select(options.value_filter, {});
    if (options.joinids) chosen.joinids = *chosen.joinids & *options.joinids;
    chosen.value_filter.clear();
    return NumberedTable::read(chosen);
  }

  /// As in a join, each part answers by its own types.
  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override {
    if (value_filter.empty()) return NumberedTable::select(value_filter, constants);
    const auto filter = table::FilterExpression::parse(value_filter);
    expect_read(filter.columns(), unread_columns());
    with_place([&] { filter.expect_one_order(columns()); }, [&] { return uri_; });
    std::vector<uint8_t> mask(rows_);
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<ConstantColumn> all = constants_[i];
      all.insert(all.end(), constants.begin(), constants.end());
      evaluate(i, filter.bind(parts_[i]->columns(), all),
               std::span(mask).subspan(first_row_[i], parts_[i]->row_count()));
    }
    return rows_of(mask);
  }

 private:
  /// Sets the mask of a part's rows. The filter sees the row numbers of the whole.
  void evaluate(size_t i, const table::BoundFilter& filter, std::span<uint8_t> mask) const {
    if (const auto constant = filter.constant()) {
      std::fill(mask.begin(), mask.end(), *constant ? 1 : 0);
      return;
    }
    ReadOptions wanted;
    wanted.columns = filter.columns();
    std::erase(wanted.columns, kRowNumbers);
    Table known;
    if (!wanted.columns.empty()) known = parts_[i]->read(wanted);  // none would be all
    known.row_count = mask.size();
    known.columns.push_back(row_numbers(first_row_[i], first_row_[i] + mask.size()));
    filter.evaluate(known, mask);
  }

  void expect_column(const std::string& name) const override {
    NumberedTable::expect_column(name);
    const auto found = infos_.find(name);
    if (found != infos_.end() && found->second.type == DataType::kAny) {
      throw InvalidArgument(mixed_types(name, tables_));
    }
  }

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
    const ColumnInfo& info = infos_.at(name);
    std::vector<ColumnPart> columns;
    const StoredTable* with_column = nullptr;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const bool is_there = has(*parts_[i], name);
      if (is_there && with_column == nullptr) with_column = parts_[i].get();
      const uint64_t from = std::max(begin, first_row_[i]);
      const uint64_t to = std::max(from, std::min(end, first_row_[i] + parts_[i]->row_count()));
      // Categories are those of all parts, whichever rows are read.
      if (from == to && !info.enumerated) continue;
      ColumnPart& part = columns.emplace_back(ColumnPart{std::nullopt, to - from});
      if (!is_there) continue;
      part.column = from == to ? read(*parts_[i], name, 0, 0)
                               : read(*parts_[i], name, from - first_row_[i], to - first_row_[i]);
    }
    // One part must say what form the values have.
    if (std::none_of(columns.begin(), columns.end(),
                     [](const ColumnPart& part) { return part.column.has_value(); })) {
      columns.push_back({read(*with_column, name, 0, 0), 0});
    }
    Column all = concatenate_parts(info, std::move(columns));
    if (all.is_variable()) table::encode_strings(all);
    if (all.categories) table::narrow_codes(all);
    return all;
  }

  const std::string uri_;
  std::vector<StoredTablePtr> parts_;
  std::vector<NamedTable> tables_;  ///< the parts, by path
  std::vector<std::vector<ConstantColumn>> constants_;
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
