#include "format/memory/memory_table.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/concat.h"
#include "format/numbered_table.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

ColumnInfo info_of(const Column& column) {
  ColumnInfo info;
  info.name = column.name;
  info.type = column.type;
  info.enumerated = column.categories != nullptr && !column.categories->from_strings;
  info.ordered = info.enumerated && column.categories->ordered;
  info.nullable = info.enumerated || !column.validity.empty();
  info.stored_bytes = column.data.size() + column.offsets.size() * sizeof(uint64_t);
  return info;
}

class MemoryTable final : public NumberedTable {
 public:
  MemoryTable(std::string uri, std::vector<Column> columns, uint64_t row_count,
              UnreadColumns unread)
      : uri_(std::move(uri)), columns_(std::move(columns)) {
    std::erase_if(columns_, [](const Column& column) { return column.name == kRowNumbers; });
    std::vector<ColumnInfo> infos;
    for (const Column& column : columns_) {
      if (column.size() != row_count) {
        throw InvalidArgument(concat("columns must have one value for each of ", row_count,
                                     " rows, got ", column.size(), " of ", column.name));
      }
      infos.push_back(info_of(column));
    }
    set_columns(std::move(infos), row_count, std::move(unread));
  }

  const std::string& uri() const override { return uri_; }
  std::string content() const override { return {}; }

 private:
  Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const override {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const Column& column) { return column.name == name; });
    if (begin == 0 && end == found->size()) return *found;
    std::vector<uint64_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    return table::take_rows(*found, rows);
  }

  const std::string uri_;
  std::vector<Column> columns_;
};

}  // namespace

StoredTablePtr make_memory_table(std::string uri, std::vector<Column> columns, uint64_t row_count,
                                 UnreadColumns unread) {
  return std::make_shared<const MemoryTable>(std::move(uri), std::move(columns), row_count,
                                             std::move(unread));
}

}  // namespace penstock::format
