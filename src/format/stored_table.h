#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/pack/checked_store.h"

// What a DataFrame stands on: a table of one axis, in any format. Rows have ids (int64), ascending:
// the column soma_joinid, or in obs of a join soma_joinid plus the offset of the experiment.
// Implementations are immutable and safe from any thread, and read on first use.

namespace penstock::format {

class StoredTable {
 public:
  virtual ~StoredTable() = default;

  virtual const std::string& uri() const = 0;
  virtual const std::vector<ColumnInfo>& columns() const = 0;
  virtual uint64_t row_count() const = 0;
  /// DataFrame::unread_columns
  virtual const UnreadColumns& unread_columns() const {
    static const UnreadColumns none;
    return none;
  }
  /// DataFrame::content
  virtual std::string content() const = 0;
  /// DataFrame::read
  virtual Table read(const ReadOptions& options) const = 0;
  /// DataFrame::select
  virtual RowSelection select(std::string_view value_filter,
                              std::span<const ConstantColumn> constants) const = 0;

  /// Copies the whole table into a folder of a pack, from where pack/experiment.cc opens it.
  /// Returns the files, by path below the folder. Throws IoError if the table changed since it was
  /// opened.
  virtual pack::FileSums copy_to(const std::string& folder) const = 0;
  /// Rows of such a copy; more than row_count() if this shows only some of them.
  virtual uint64_t copied_rows() const { return row_count(); }
};

using StoredTablePtr = std::shared_ptr<const StoredTable>;

/// Throws Unsupported, with the reason, if one of the columns `names` is not read.
void expect_read(const std::vector<std::string>& names, const UnreadColumns& unread);

}  // namespace penstock::format

namespace penstock {

struct DataFrame::State {
  format::StoredTablePtr table;
};

}  // namespace penstock
