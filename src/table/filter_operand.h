#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "table/filter_syntax.h"

// What the parser has in hand between two operators, and the conditions that operands make: here is
// decided what may be compared with what. Errors point at the operand in the text.

namespace penstock::table {

/// What an expression came out as; only conditions can be a filter or be joined.
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

/// An operator between two operands.
struct ComparisonToken {
  enum class Kind : uint8_t { kCompare, kIn, kNotIn };
  Kind kind = Kind::kCompare;
  CompareOp op = CompareOp::kEqual;
  size_t begin = 0, end = 0;
  std::string text;
};

/// `column op value`, either way round.
FilterNode compare(std::string_view text, const Operand& left, const ComparisonToken& op,
                   const Operand& right);
/// `column in [values]`.
FilterNode member(std::string_view text, const Operand& left, const ComparisonToken& op,
                  const Operand& right);
/// Conditions under kAnd, kOr or kNot.
Operand join(FilterNode::Kind kind, std::vector<FilterNode> parts);
Operand condition_operand(FilterNode condition);

}  // namespace penstock::table
