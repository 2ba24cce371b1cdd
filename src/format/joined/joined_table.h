#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/joined/columns.h"
#include "format/joined/gene_match.h"
#include "format/stored_table.h"

// Tables of a join. Filters go to the tables of the parts, where constants stand for columns that
// only other parts have.

namespace penstock::format {

/// What obs and var of a join have in common.
class JoinedTable : public StoredTable {
 public:
  const std::string& uri() const final { return uri_; }
  const std::vector<ColumnInfo>& columns() const final { return columns_; }
  const UnreadColumns& unread_columns() const final { return unread_; }
  std::string content() const final;
  /// Throws InvalidArgument: a join is not packed.
  pack::FileSums copy_to(const std::string& folder) const final;

 protected:
  /// Columns that were read from one part, by name, without those that the part lacks.
  struct PartColumns {
    std::map<std::string, Column> columns;
    uint64_t row_count = 0;
  };

  explicit JoinedTable(std::vector<NamedTable> parts);

  /// Where the rows of the parts are in the join.
  virtual std::string arrangement() const = 0;

  /// Returns the columns of these names, or all. Throws NotFound for a column that does not exist,
  /// Unsupported for one that is not read in a part, and InvalidArgument for one that holds values
  /// of different kinds.
  std::vector<ColumnInfo> chosen_columns(const std::vector<std::string>& names) const;
  /// Throws Unsupported if the filter names a column that is not read in a part.
  void expect_filter_read(std::string_view value_filter) const;
  RowSelection select_in(size_t part, std::string_view value_filter,
                         std::span<const ConstantColumn> constants) const;
  PartColumns read_part(size_t part, const std::vector<ColumnInfo>& wanted,
                        std::optional<RowSelection> joinids) const;
  static std::vector<ColumnPart> take_column(const std::string& name,
                                             std::vector<PartColumns>& read);

  std::vector<NamedTable> parts_;
  std::vector<ColumnInfo> columns_;
  UnreadColumns unread_;
  /// For each part, what its filters may name besides its own columns.
  std::vector<std::vector<ConstantColumn>> constants_;

 private:
  std::string uri_;
};

/// obs of an experiment, and where its rows are in the join.
struct ObsPart {
  NamedTable obs;
  int64_t row_offset = 0;
  int64_t row_end = 0;  ///< one past its largest joinid
};

/// Cells of all parts, one part after the other, with a column of the name of their part.
StoredTablePtr join_obs(std::vector<ObsPart> parts, const std::string& source_column);

/// Genes of a join. `name_column` is the column that they were matched by.
StoredTablePtr join_var(std::vector<NamedTable> parts, std::shared_ptr<const GeneMatch> match,
                        std::string name_column);

}  // namespace penstock::format
