#include "format/joined/joined_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "table/filter_expression.h"

namespace penstock::format {

JoinedTable::JoinedTable(std::vector<NamedTable> parts)
    : parts_(std::move(parts)),
      columns_(joined_columns(parts_)),
      unread_(joined_unread(parts_)),
      constants_(missing_columns(parts_)) {
  for (const NamedTable& part : parts_) uri_ += (uri_.empty() ? "" : " + ") + part.table.uri();
}

std::string JoinedTable::content() const {
  std::string text = arrangement();
  for (const NamedTable& part : parts_) {
    const std::string own = part.table.content();
    if (own.empty()) return {};
    text += own;
  }
  return text;
}

pack::FileSums JoinedTable::copy_to(const std::string& /*folder*/) const {
  throw InvalidArgument(
      concat("pack each experiment of a join, then join the packs; the join is ", uri_));
}

std::vector<ColumnInfo> JoinedTable::chosen_columns(const std::vector<std::string>& names) const {
  std::vector<ColumnInfo> chosen = columns_;
  if (!names.empty()) chosen.clear();
  expect_read(names, unread_);
  for (const std::string& name : names) {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const ColumnInfo& info) { return info.name == name; });
    if (found == columns_.end()) {
      std::string known;
      for (const ColumnInfo& info : columns_) known += (known.empty() ? "" : ", ") + info.name;
      throw NotFound(concat("there is no column '", name, "'; choose from ", known, ", in ", uri_));
    }
    chosen.push_back(*found);
  }
  for (const ColumnInfo& info : chosen) {
    if (info.type == DataType::kAny) throw InvalidArgument(mixed_types(info.name, parts_));
  }
  return chosen;
}

void JoinedTable::expect_filter_read(std::string_view value_filter) const {
  if (value_filter.empty()) return;
  const auto filter = table::FilterExpression::parse(value_filter);
  expect_read(filter.columns(), unread_);
  with_place([&] { filter.expect_one_order(columns_); }, [&] { return uri_; });
}

RowSelection JoinedTable::select_in(size_t part, std::string_view value_filter,
                                    std::span<const ConstantColumn> constants) const {
  std::vector<ConstantColumn> all = constants_[part];
  all.insert(all.end(), constants.begin(), constants.end());
  return parts_[part].table.select(value_filter, all);
}

JoinedTable::PartColumns JoinedTable::read_part(size_t part, const std::vector<ColumnInfo>& wanted,
                                                std::optional<RowSelection> joinids) const {
  ReadOptions options;
  for (const ColumnInfo& own : parts_[part].table.columns()) {
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(), [&](const ColumnInfo& info) {
      return info.name == own.name;
    });
    if (is_wanted) options.columns.push_back(own.name);
  }
  // An empty list would read all columns; one column is needed to count the rows.
  if (options.columns.empty()) options.columns.emplace_back("soma_joinid");
  options.joinids = std::move(joinids);
  Table table = parts_[part].table.read(options);
  PartColumns read;
  read.row_count = table.row_count;
  for (Column& column : table.columns) read.columns.emplace(column.name, std::move(column));
  return read;
}

std::vector<ColumnPart> JoinedTable::take_column(const std::string& name,
                                                 std::vector<PartColumns>& read) {
  std::vector<ColumnPart> parts;
  for (PartColumns& part : read) {
    ColumnPart& taken = parts.emplace_back(ColumnPart{std::nullopt, part.row_count});
    const auto found = part.columns.find(name);
    if (found != part.columns.end()) taken.column = std::move(found->second);
  }
  return parts;
}

}  // namespace penstock::format
