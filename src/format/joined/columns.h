#pragma once

#include <penstock/experiment.h>
#include <penstock/table.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Columns of several tables as one.

namespace penstock::format {

/// A table of an experiment to join.
struct NamedTable {
  std::string name;  ///< of the experiment
  DataFrame table;
};

/// Rows of one table: their values in a column, unless the table lacks the column.
struct ColumnPart {
  std::optional<Column> column;
  uint64_t row_count = 0;
};

/// Returns the columns that any of the tables has, in order of first appearance, without those that
/// are not read in one. The type holds the values of all tables; it is kAny if no type does. Reads
/// the categories of columns that are ordered in all tables.
std::vector<ColumnInfo> joined_columns(const std::vector<NamedTable>& tables);

/// Returns the columns that are not read in any of the tables, with reasons that name the table.
UnreadColumns joined_unread(const std::vector<NamedTable>& tables);

/// Returns for each table the columns that only other tables have, as nulls for filters.
std::vector<std::vector<ConstantColumn>> missing_columns(const std::vector<NamedTable>& tables);

/// Returns the error for a column of type kAny: the type that each table has.
std::string mixed_types(const std::string& column, const std::vector<NamedTable>& tables);

/// Concatenates a column of all tables; at least one has it. `info` is one of joined_columns.
/// Categories are merged in order of first appearance, and stay ordered if all tables have the
/// same. Rows of a table without the column are null.
Column concatenate_parts(const ColumnInfo& info, std::vector<ColumnPart> parts);

/// Returns a column of categories with the first name `counts[0]` times, then the second, …
Column repeated_names(const std::string& column, std::vector<std::string> names,
                      const std::vector<uint64_t>& counts);

}  // namespace penstock::format
