#include "table/filter_operand.h"

#include <cctype>
#include <utility>

#include "table/filter_token.h"

namespace penstock::table {
namespace {

[[noreturn]] void fail(std::string_view text, const Operand& at, const std::string& message) {
  fail_at(text, at.begin, at.end, message);
}

CompareOp mirrored(CompareOp op) {
  switch (op) {
    case CompareOp::kLess:
      return CompareOp::kGreater;
    case CompareOp::kLessEqual:
      return CompareOp::kGreaterEqual;
    case CompareOp::kGreater:
      return CompareOp::kLess;
    case CompareOp::kGreaterEqual:
      return CompareOp::kLessEqual;
    case CompareOp::kEqual:
    case CompareOp::kNotEqual:
      break;
  }
  return op;
}

void set_column(FilterNode& node, const Operand& column) {
  node.column = column.column;
  node.column_begin = column.begin;
  node.column_end = column.end;
}

}  // namespace

std::string_view describe(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kCondition:
      return "a condition";
    case Operand::Kind::kColumn:
      return "a column";
    case Operand::Kind::kValue:
      return "a value";
    case Operand::Kind::kList:
      break;
  }
  return "a list";
}

std::string value_expected(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_bool = lower == "true" || lower == "false";
  const bool is_missing = lower == "nan" || lower == "na" || lower == "null" || lower == "none";
  return "expected a value, found the name '" + std::string(name) + "'; " +
         (is_bool ? "a bool is written True or False"
          : is_missing
              ? "a missing value is written None. NaN is a number that no comparison finds: "
                "choose such cells by a bool array, as obs[column].isna()"
              : "a string is put in quotes");
}

FilterNode compare(std::string_view text, const Operand& left, const ComparisonToken& op,
                   const Operand& right) {
  using Kind = Operand::Kind;
  for (const Operand* side : {&left, &right}) {
    if (side->kind == Kind::kCondition) {
      fail(text, *side, "a condition cannot be compared with '" + op.text + "'");
    }
    if (side->kind == Kind::kList) fail(text, *side, "a list stands only after 'in' or 'not in'");
  }
  if (left.kind == Kind::kColumn && right.kind == Kind::kColumn) {
    fail(text, right, value_expected(right.column));
  }
  if (left.kind == Kind::kValue && right.kind == Kind::kValue) {
    fail_at(text, left.begin, right.end, "expected a column on one side of '" + op.text + "'");
  }
  const bool column_first = left.kind == Kind::kColumn;
  const Operand& column = column_first ? left : right;
  FilterNode node;
  node.kind = FilterNode::Kind::kCompare;
  node.begin = left.begin;
  node.end = right.end;
  set_column(node, column);
  node.op = column_first ? op.op : mirrored(op.op);
  node.values.push_back(column_first ? right.value : left.value);
  return node;
}

FilterNode member(std::string_view text, const Operand& left, const ComparisonToken& op,
                  const Operand& right) {
  if (left.kind != Operand::Kind::kColumn) {
    fail(text, left, "expected a column before 'in', found " + std::string(describe(left)));
  }
  if (right.kind != Operand::Kind::kList) {
    fail(text, right,
         "expected a list in square brackets after 'in', found " + std::string(describe(right)));
  }
  if (right.list.empty()) fail(text, right, "expected at least one value in the list");
  FilterNode node;
  node.kind = FilterNode::Kind::kIn;
  node.begin = left.begin;
  node.end = right.end;
  set_column(node, left);
  node.negated = op.kind == ComparisonToken::Kind::kNotIn;
  node.values = right.list;
  return node;
}

Operand join(FilterNode::Kind kind, std::vector<FilterNode> parts) {
  Operand result;
  result.kind = Operand::Kind::kCondition;
  result.begin = parts.front().begin;
  result.end = parts.back().end;
  result.condition.kind = kind;
  result.condition.begin = result.begin;
  result.condition.end = result.end;
  result.condition.children = std::move(parts);
  return result;
}

Operand condition_operand(FilterNode condition) {
  Operand result;
  result.kind = Operand::Kind::kCondition;
  result.begin = condition.begin;
  result.end = condition.end;
  result.condition = std::move(condition);
  return result;
}

}  // namespace penstock::table
