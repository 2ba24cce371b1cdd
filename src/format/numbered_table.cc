#include "format/numbered_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/hash/checksum.h"
#include "format/anndata/table_writer.h"
#include "format/pack/written_files.h"
#include "io/store.h"
#include "table/column_operations.h"
#include "table/filter_expression.h"

namespace penstock::format {

Column row_numbers(uint64_t begin, uint64_t end) {
  Column column;
  column.name = kRowNumbers;
  column.type = DataType::kInt64;
  column.row_count = end - begin;
  column.data.resize(column.row_count * sizeof(int64_t));
  auto* const out = reinterpret_cast<int64_t*>(column.data.data());
  for (uint64_t row = begin; row < end; ++row) out[row - begin] = static_cast<int64_t>(row);
  return column;
}

RowSelection rows_of(std::span<const uint8_t> mask) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) rows.push_back(static_cast<int64_t>(i));
  }
  return RowSelection::from_sorted(rows);
}

void NumberedTable::set_columns(std::vector<ColumnInfo> infos, uint64_t row_count,
                                UnreadColumns unread) {
  ColumnInfo numbers;
  numbers.name = kRowNumbers;
  numbers.is_index = true;
  infos_ = std::move(infos);
  infos_.insert(infos_.begin(), std::move(numbers));
  row_count_ = row_count;
  unread_ = std::move(unread);
}

void NumberedTable::expect_column(const std::string& name) const {
  expect_read({name}, unread_);
  const auto is_it = [&](const ColumnInfo& info) { return info.name == name; };
  if (std::any_of(infos_.begin(), infos_.end(), is_it)) return;
  std::string names;
  for (const ColumnInfo& info : infos_) names += (names.empty() ? "" : ", ") + info.name;
  throw NotFound("there is no column '" + name + "'; choose from " + names + ", in " + uri());
}

/// Announces columns, without the row numbers and each once.
void NumberedTable::announce(const std::vector<std::string>& names,
                             const std::vector<std::string>& more, uint64_t begin,
                             uint64_t end) const {
  std::vector<std::string> stored = names;
  stored.insert(stored.end(), more.begin(), more.end());
  std::sort(stored.begin(), stored.end());
  stored.erase(std::unique(stored.begin(), stored.end()), stored.end());
  std::erase(stored, kRowNumbers);
  will_read(stored, begin, end);
}

Column NumberedTable::read_column(const std::string& name, uint64_t begin, uint64_t end) const {
  if (name == kRowNumbers) return row_numbers(begin, end);
  return stored_column(name, begin, end);
}

/// Reads the filter's columns into `known` and evaluates it.
std::vector<uint8_t> NumberedTable::mask_of(const table::BoundFilter& filter, Table& known,
                                            uint64_t begin, uint64_t end) const {
  for (const std::string& name : filter.columns()) {
    if (known.find(name) == nullptr) known.columns.push_back(read_column(name, begin, end));
  }
  known.row_count = end - begin;
  std::vector<uint8_t> mask(end - begin);
  filter.evaluate(known, mask);
  return mask;
}

Table NumberedTable::read(const ReadOptions& options) const {
  std::vector<std::string> names = options.columns;
  if (names.empty()) {
    for (const ColumnInfo& info : infos_) names.push_back(info.name);
  }
  for (const std::string& name : names) {
    expect_column(name);
  }
  RowSelection wanted = RowSelection::range(0, static_cast<int64_t>(row_count_));
  if (options.joinids) wanted = wanted & *options.joinids;
  const uint64_t begin = wanted.empty() ? 0 : static_cast<uint64_t>(wanted.at(0));
  const uint64_t end = wanted.empty() ? 0 : static_cast<uint64_t>(wanted.at(wanted.size() - 1)) + 1;
  Table known;
  known.row_count = end - begin;
  std::vector<uint8_t> mask;
  if (!options.value_filter.empty()) {
    const auto expression = table::FilterExpression::parse(options.value_filter);
    expect_read(expression.columns(), unread_);
    const auto filter = expression.bind(infos_);
    announce(names, filter.columns(), begin, end);
    mask = mask_of(filter, known, begin, end);
  } else {
    announce(names, {}, begin, end);
  }
  if (wanted.size() != end - begin) {
    std::vector<int64_t> rows;
    wanted.copy_range(static_cast<int64_t>(begin), static_cast<int64_t>(end), rows);
    std::vector<uint8_t> chosen(end - begin);
    for (const int64_t row : rows) {
      const auto place = static_cast<uint64_t>(row) - begin;
      chosen[place] = mask.empty() ? 1 : mask[place];
    }
    mask = std::move(chosen);
  }
  Table result;
  result.row_count = end - begin;
  for (const std::string& name : names) {
    const Column* const found = known.find(name);
    Column column = found != nullptr ? *found : read_column(name, begin, end);
    if (!mask.empty()) column = table::filter_rows(column, mask);
    result.row_count = column.size();
    result.columns.push_back(std::move(column));
  }
  return result;
}

RowSelection NumberedTable::select(std::string_view value_filter,
                                   std::span<const ConstantColumn> constants) const {
  const auto all = RowSelection::range(0, static_cast<int64_t>(row_count_));
  if (value_filter.empty()) return all;
  const auto expression = table::FilterExpression::parse(value_filter);
  expect_read(expression.columns(), unread_);
  const auto filter = expression.bind(infos_, constants);
  if (const auto constant = filter.constant()) return *constant ? all : RowSelection();
  announce(filter.columns(), {}, 0, row_count_);
  Table known;
  return rows_of(mask_of(filter, known, 0, row_count_));
}

// Sources list the index first, after the row numbers.
pack::FileSums NumberedTable::copy_to(const std::string& folder) const {
  const std::string before = content();
  pack::FileSums sums;
  pack::make_folder(folder);
  anndata::write_table(
      *this, infos_.size() > 1 ? infos_[1].name : std::string(),
      [&](const std::string& path, std::span<const std::byte> bytes) {
        const std::string file = io::join(folder, path);
        pack::make_folder(file.substr(0, file.rfind('/')));
        pack::write_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        sums[path] = {bytes.size(), crc32c(bytes)};
      });
  if (before.empty() || content() == before) return sums;
  throw IoError(
      "a table was written to while it was packed: open the experiment again and pack that, " +
      uri());
}

}  // namespace penstock::format
