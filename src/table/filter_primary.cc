#include <algorithm>
#include <array>
#include <utility>

#include "table/filter_parser.h"

namespace penstock::table {
namespace {

constexpr std::array<std::string_view, 35> kKeywords = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

}  // namespace

Operand FilterParser::parse_sign() {
  if (!at_operator("-") && !at_operator("+")) return parse_primary();
  const size_t begin = token_.begin;
  bool minus = false;
  for (; at_operator("-") || at_operator("+"); advance()) minus ^= at_operator("-");
  Operand operand = parse_primary();
  Literal& value = operand.value;
  if (operand.kind != Operand::Kind::kValue || operand.from_val ||
      value.kind == Literal::Kind::kNull || value.kind == Literal::Kind::kString) {
    fail(operand, "expected a number after the sign");
  }
  if (value.kind == Literal::Kind::kBool) value.kind = Literal::Kind::kInteger;
  if (minus) {
    value.negative = !value.negative;
    value.real = -value.real;
  }
  operand.begin = value.begin = begin;
  return operand;
}

Operand FilterParser::parse_primary() {
  Operand operand;
  operand.begin = token_.begin;
  switch (token_.kind) {
    case TokenKind::kEnd:
      fail_unexpected("expected a column or a value");
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kString:
      operand.value = take_literal();
      break;
    case TokenKind::kName:
      operand = parse_name();
      break;
    case TokenKind::kOperator:
      if (at_operator("(")) {
        operand = parse_parentheses();
      } else if (at_operator("[")) {
        operand = parse_list();
      } else if (at_operator("{")) {
        fail_here("sets are not supported; write a list in square brackets");
      } else if (at_operator("~")) {
        fail_here("'~' is not supported; use 'not'");
      } else {
        fail_unexpected("expected a column or a value");
      }
      break;
  }
  operand.end = previous_end_;
  if (at_operator("(") || at_operator("[")) {
    fail_unexpected(operand.kind == Operand::Kind::kColumn
                        ? "only attr(…) and val(…) can be called; expected an operator"
                        : "expected an operator");
  }
  return operand;
}

Operand FilterParser::parse_parentheses() {
  const Nested nested(*this);
  const size_t begin = token_.begin;
  advance();
  if (at_operator(")")) fail_here("expected a condition between the parentheses");
  Operand operand = parse_or();
  if (at_operator(",")) {
    fail_here("tuples are not supported; write a list in square brackets");
  }
  if (!take_operator(")")) {
    fail_unexpected("expected ')' for the '(' at offset " + std::to_string(begin));
  }
  operand.begin = begin;
  return operand;
}

Operand FilterParser::parse_list() {
  const Nested nested(*this);
  Operand operand;
  operand.kind = Operand::Kind::kList;
  operand.begin = token_.begin;
  advance();
  while (!at_operator("]")) {
    Operand item = parse_sign();
    if (item.kind == Operand::Kind::kColumn) {
      fail(item, value_expected(item.column));
    }
    if (item.kind != Operand::Kind::kValue) {
      fail(item, "expected a value in the list, found " + std::string(describe(item)));
    }
    operand.list.push_back(std::move(item.value));
    if (!take_operator(",")) break;
  }
  if (!take_operator("]")) fail_unexpected("expected ',' or ']' in the list");
  return operand;
}

/// The literal at the token. Adjacent strings are joined, as in Python.
Literal FilterParser::take_literal() {
  Literal literal;
  literal.begin = token_.begin;
  literal.end = token_.end;
  if (token_.kind == TokenKind::kString) {
    literal.kind = Literal::Kind::kString;
    while (token_.kind == TokenKind::kString) {
      literal.text += token_.text;
      literal.end = token_.end;
      advance();
    }
    return literal;
  }
  literal.kind =
      token_.kind == TokenKind::kInteger ? Literal::Kind::kInteger : Literal::Kind::kFloat;
  literal.magnitude = token_.magnitude;
  literal.huge = token_.huge;
  literal.real = token_.real;
  advance();
  return literal;
}

Operand FilterParser::parse_name() {
  Operand operand;
  operand.begin = token_.begin;
  const std::string name = token_.text;
  if (name == "True" || name == "False" || name == "None") {
    operand.value.begin = token_.begin;
    operand.value.end = token_.end;
    if (name != "None") {
      operand.value.kind = Literal::Kind::kBool;
      operand.value.magnitude = name == "True" ? 1 : 0;
      operand.value.real = name == "True" ? 1.0 : 0.0;
    }
    advance();
    return operand;
  }
  if (std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end()) {
    fail_unexpected("expected a column or a value");
  }
  advance();
  if (at_operator("(") && (name == "attr" || name == "val")) return parse_call(name, operand);
  if (at_operator(".")) {
    fail_here("a column with a dot in its name is written attr(\"" + name + ".…\")");
  }
  operand.kind = Operand::Kind::kColumn;
  operand.column = name;
  operand.end = previous_end_;
  return operand;
}

Operand FilterParser::parse_call(const std::string& name, Operand operand) {
  advance();
  const std::string call = name + "(…)";
  if (name == "attr") {
    if (token_.kind != TokenKind::kString) {
      fail_unexpected("expected a column name in quotes in attr(…)");
    }
    operand.kind = Operand::Kind::kColumn;
    operand.column = take_literal().text;
  } else {
    const bool constant = token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat ||
                          token_.kind == TokenKind::kString || at_name("True") ||
                          at_name("False") || at_name("None");
    if (!constant) fail_unexpected("expected a number or a string in val(…)");
    operand.value = token_.kind == TokenKind::kName ? parse_name().value : take_literal();
    operand.from_val = true;
  }
  take_operator(",");
  if (!take_operator(")")) fail_unexpected("expected ')' after the one argument of " + call);
  operand.end = previous_end_;
  return operand;
}

}  // namespace penstock::table
