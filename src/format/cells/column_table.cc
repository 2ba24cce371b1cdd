#include "format/cells/column_table.h"

#include "format/check_columns.h"

namespace penstock::format {

ColumnTable::ColumnTable(std::span<const int64_t> chosen, std::span<const int64_t> view,
                         bool view_shows_all, uint64_t stored_columns) {
  const auto shown = static_cast<int64_t>(view_shows_all ? stored_columns : view.size());
  check_columns(chosen, shown);
  all_ = view_shows_all && static_cast<int64_t>(chosen.size()) == shown;
  stored_.reserve(chosen.size());
  for (const int64_t column : chosen) {
    stored_.push_back(view_shows_all ? column : view[static_cast<size_t>(column)]);
  }
  if (all_) return;
  table_.assign(stored_columns, kNotChosen);
  for (size_t i = 0; i < stored_.size(); ++i) {
    table_[static_cast<size_t>(stored_[i])] = static_cast<uint32_t>(i);
  }
}

}  // namespace penstock::format
