#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "table/filter_syntax.h"

// Operands of the parser, and the conditions made of them: decides which operands may be compared.
// Errors point at the operand in the text.

namespace penstock::table {

/// A parsed expression. Only a condition can be a filter or be joined.
struct Operand {
  enum class Kind : uint8_t { kCondition, kColumn, kValue, kList };
  Kind kind = Kind::kValue;
  size_t begin = 0, end = 0;
  FilterNode condition;
  std::string column;
  Literal value;
  bool from_val = false;  // val(…), which takes no sign
  std::vector<Literal> list;
};

std::string_view describe(const Operand& operand);

/// What is said of a name that stands in the place of a value.
std::string value_expected(std::string_view name);

/// An operator between two operands.
struct ComparisonToken {
  enum class Kind : uint8_t { kCompare, kIn, kNotIn };
  Kind kind = Kind::kCompare;
  CompareOp op = CompareOp::kEqual;
  size_t begin = 0, end = 0;
  std::string text;
};

/// `column op value` or `value op column`.
FilterNode compare(std::string_view text, const Operand& left, const ComparisonToken& op,
                   const Operand& right);
/// `column in [values]`.
FilterNode member(std::string_view text, const Operand& left, const ComparisonToken& op,
                  const Operand& right);
/// Conditions under kAnd, kOr or kNot.
Operand join(FilterNode::Kind kind, std::vector<FilterNode> parts);
Operand condition_operand(FilterNode condition);

}  // namespace penstock::table
