#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Syntax tree of the value_filter language, which is tiledbsoma's (_query_condition.py): the part
// of Python's expressions that its AST visitor accepts. Precedence is Python's, so & and | bind
// more tightly than comparisons.
//
//   filter      comparison | filter and filter | filter or filter | not filter
//               | (filter) & (filter) | (filter) | (filter)
//   comparison  column op value | value op column | value op column op value ...
//               | column in [value, ...] | column not in [value, ...]
//   column      name | attr("any name")
//   value       number | string | True | False | None | val(value)
//
// Accepted here but not by tiledbsoma 1.17: `not`, None (newer releases have both), signed numbers
// in lists, and lists for bool, uint8 and int16 columns. Refused here: a comparison chained after
// `in`, whose rest tiledbsoma silently ignores.

namespace penstock::table {

enum class CompareOp : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };

struct Literal {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kFloat, kString };
  Kind kind = Kind::kNull;
  size_t begin = 0, end = 0;  ///< place in the text

  bool negative = false;   ///< kInteger; kBool is 0 or 1 in `magnitude`
  uint64_t magnitude = 0;  ///< kInteger, kBool
  bool huge = false;       ///< kInteger that does not fit 64 bits
  double real = 0;         ///< kInteger, kFloat, kBool, with its sign
  std::string text;        ///< kString
};

struct FilterNode {
  enum class Kind : uint8_t { kCompare, kIn, kAnd, kOr, kNot };
  Kind kind = Kind::kCompare;
  size_t begin = 0, end = 0;

  std::vector<FilterNode> children;  ///< kAnd, kOr: two or more; kNot: one

  std::string column;  ///< kCompare, kIn
  size_t column_begin = 0, column_end = 0;
  CompareOp op = CompareOp::kEqual;  ///< kCompare, the column on the left
  bool negated = false;              ///< kIn: `not in`
  std::vector<Literal> values;       ///< kCompare: one; kIn: one or more
};

/// Deepest nesting of parentheses and `not`; Python has the same limit for parentheses.
inline constexpr int kMaxFilterDepth = 200;

/// Throws InvalidArgument, which points at the place.
FilterNode parse_filter(std::string_view text);

}  // namespace penstock::table
