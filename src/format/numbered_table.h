#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/stored_table.h"

namespace penstock::table {
class BoundFilter;
}

// A table whose row ids are row numbers: obs or var of an AnnData. What differs between files and
// memory is how the values of a column are read.

namespace penstock::format {

/// The column of row ids. A stored column of that name is hidden.
inline constexpr std::string_view kRowNumbers = "soma_joinid";

/// That column, of rows [begin, end).
Column row_numbers(uint64_t begin, uint64_t end);

/// Row numbers where `mask` is not 0.
RowSelection rows_of(std::span<const uint8_t> mask);

class NumberedTable : public StoredTable {
 public:
  const std::vector<ColumnInfo>& columns() const final { return infos_; }
  uint64_t row_count() const final { return row_count_; }
  /// Reads whole columns between the first and the last row that is asked for.
  Table read(const ReadOptions& options) const override;
  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override;
  const UnreadColumns& unread_columns() const final { return unread_; }
  /// Writes a zarr store (anndata/table_writer.h).
  pack::FileSums copy_to(const std::string& folder) const final;

 protected:
  /// Called once, by the constructor. `infos` without the row numbers.
  void set_columns(std::vector<ColumnInfo> infos, uint64_t row_count, UnreadColumns unread = {});

  /// Values of one of the columns, for rows [begin, end).
  virtual Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const = 0;
  /// Called before stored_column() with all columns that are read next.
  virtual void will_read(const std::vector<std::string>& /*names*/, uint64_t /*begin*/,
                         uint64_t /*end*/) const {}
  /// Throws NotFound, which lists the columns, unless there is one of this name, and Unsupported if
  /// it is not read.
  virtual void expect_column(const std::string& name) const;

 private:
  Column read_column(const std::string& name, uint64_t begin, uint64_t end) const;
  void announce(const std::vector<std::string>& names, const std::vector<std::string>& more,
                uint64_t begin, uint64_t end) const;
  std::vector<uint8_t> mask_of(const table::BoundFilter& filter, Table& known, uint64_t begin,
                               uint64_t end) const;

  std::vector<ColumnInfo> infos_;
  UnreadColumns unread_;
  uint64_t row_count_ = 0;
};

}  // namespace penstock::format
