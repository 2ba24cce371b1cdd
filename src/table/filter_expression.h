#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Evaluates a value_filter: from text to a mask over rows.
//
//   auto filter = FilterExpression::parse("tissue == 'lung' and n_genes > 500");
//   filter.columns();                          // {"tissue", "n_genes"}: columns to read
//   BoundFilter bound = filter.bind(schema);   // names and value types are checked
//   bound.evaluate(table, mask);               // once a chunk of rows, from any thread
//
// Results are those of tiledbsoma, except for numbers beside an integer column:
// - A comparison with a null cell is false, also under `not`, which inverts the comparisons.
// - Integers, dates, times and booleans compare by value: no cell equals 1.9, and every int8 is
//   less than 300. tiledbsoma compares with 1, and refuses 300.
// - Floating point columns compare with the nearest value of their type.
// - Strings compare by bytes.
// - On an enumerated column, values become codes once, and rows compare codes. A value that is not
//   in the enumeration equals nothing. < and > need an ordered enumeration and follow its order.
// - Set membership of floating point values is by bits, so -0.0 is not in [0.0].
//
// Both classes are immutable; copies share.

namespace penstock::table {

struct FilterNode;

/// A filter bound to typed columns.
class BoundFilter {
 public:
  /// Columns that evaluate needs, in that order.
  const std::vector<std::string>& columns() const noexcept;

  /// Sets mask[i] to 1 for rows that the filter keeps, else to 0. `columns` must be in the order of
  /// columns(), each with mask.size() rows. Throws `Internal` if a column or its categories have
  /// another type than the bound one.
  void evaluate(std::span<const Column* const> columns, std::span<uint8_t> mask) const;
  /// If the result does not depend on stored columns: whether every row is kept, or none.
  std::optional<bool> constant() const noexcept;

  /// As above; looks the columns up by name.
  void evaluate(const Table& table, std::span<uint8_t> mask) const;

  struct Plan;
  explicit BoundFilter(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

 private:
  std::shared_ptr<const Plan> plan_;
};

class FilterExpression {
 public:
  /// Throws InvalidArgument, with the line and a caret under the place, if `text` is not a filter.
  static FilterExpression parse(std::string_view text);

  const std::string& text() const noexcept { return *text_; }
  /// Names of the columns that the filter compares, each once, in order of appearance.
  const std::vector<std::string>& columns() const noexcept { return columns_; }

  /// For tables of several parts, each of which answers by its own categories. Throws
  /// InvalidArgument if < or > compares a column of categories that is not ordered in the `joined`
  /// schema.
  void expect_one_order(std::span<const ColumnInfo> joined) const;

  /// Throws NotFound for an unknown column (the message lists the columns), and InvalidArgument for
  /// a value that the column's type cannot be compared with; both point at the place.
  /// `constants` are columns besides those of the schema, with the same value in every row; their
  /// comparisons are decided here.
  BoundFilter bind(std::span<const ColumnInfo> schema,
                   std::span<const ConstantColumn> constants = {}) const;

 private:
  FilterExpression() = default;
  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const FilterNode> root_;
  std::vector<std::string> columns_;
};

}  // namespace penstock::table
