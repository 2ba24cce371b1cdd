#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/stored_table.h"

namespace penstock::format::pack {

/// A table of which only some rows are shown: obs of a pack of a selection, which is stored whole.
class KeptTable final : public StoredTable {
 public:
  KeptTable(StoredTablePtr stored, RowSelection kept)
      : stored_(std::move(stored)), kept_(std::move(kept)) {}

  const std::string& uri() const override { return stored_->uri(); }
  const std::vector<ColumnInfo>& columns() const override { return stored_->columns(); }
  const UnreadColumns& unread_columns() const override { return stored_->unread_columns(); }
  uint64_t row_count() const override { return kept_.size(); }
  std::string content() const override { return stored_->content(); }
  Table read(const ReadOptions& options) const override {
    ReadOptions own = options;
    own.joinids = options.joinids ? *options.joinids & kept_ : kept_;
    return stored_->read(own);
  }
  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override {
    if (!value_filter.empty()) return stored_->select(value_filter, constants) & kept_;
    stored_->columns();  // so that a damaged table is found
    return kept_;
  }
  FileSums copy_to(const std::string& folder) const override { return stored_->copy_to(folder); }
  uint64_t copied_rows() const override { return stored_->row_count(); }

 private:
  StoredTablePtr stored_;
  RowSelection kept_;
};

}  // namespace penstock::format::pack
