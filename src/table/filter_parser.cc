#include "table/filter_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::table {

FilterNode FilterParser::parse() {
  if (token_.kind == TokenKind::kEnd) fail_here("the filter is empty; expected a comparison");
  Operand whole = parse_or();
  if (token_.kind != TokenKind::kEnd) fail_unexpected("expected 'and', 'or' or the end");
  return as_condition(std::move(whole));
}

void FilterParser::fail_here(const std::string& message) const {
  fail_at(text_, token_.begin, token_.end, message);
}
void FilterParser::fail(const Operand& at, const std::string& message) const {
  fail_at(text_, at.begin, at.end, message);
}
void FilterParser::fail_unexpected(const std::string& expected) const {
  if (token_.kind == TokenKind::kEnd) fail_here(expected + ", found the end of the filter");
  const std::string found(text_.substr(token_.begin, token_.end - token_.begin));
  if (found == "=") fail_here(expected + ", found '='; equality is written ==");
  if (found == ".") {
    fail_here(expected + ", found '.'; a column with a dot in its name is written attr(\"…\")");
  }
  if (found == "&&" || found == "||" || found == "!") fail_here(expected + ", found " + found);
  fail_here(expected + ", found '" + (found.size() > 40 ? found.substr(0, 40) + "…" : found) + "'");
}

FilterNode FilterParser::as_condition(Operand operand) const {
  if (operand.kind == Operand::Kind::kCondition) return std::move(operand.condition);
  const bool ends =
      token_.kind == TokenKind::kEnd || at_name("and") || at_name("or") || at_operator(")");
  if (!ends) fail_unexpected("expected a comparison such as ==");
  fail(operand, "expected a condition such as column == value, found only " +
                    std::string(describe(operand)));
}

Operand FilterParser::parse_or() {
  Operand first = parse_and();
  if (!at_name("or")) return first;
  std::vector<FilterNode> parts;
  parts.push_back(as_condition(std::move(first)));
  while (at_name("or")) {
    advance();
    parts.push_back(as_condition(parse_and()));
  }
  return join(FilterNode::Kind::kOr, std::move(parts));
}

Operand FilterParser::parse_and() {
  Operand first = parse_not();
  if (!at_name("and")) return first;
  std::vector<FilterNode> parts;
  parts.push_back(as_condition(std::move(first)));
  while (at_name("and")) {
    advance();
    parts.push_back(as_condition(parse_not()));
  }
  return join(FilterNode::Kind::kAnd, std::move(parts));
}

Operand FilterParser::parse_not() {
  if (!at_name("not")) return parse_comparison();
  const Nested nested(*this);
  const size_t begin = token_.begin;
  advance();
  std::vector<FilterNode> parts;
  parts.push_back(as_condition(parse_not()));
  Operand result = join(FilterNode::Kind::kNot, std::move(parts));
  result.begin = result.condition.begin = begin;
  return result;
}

std::optional<ComparisonToken> FilterParser::take_comparison() {
  ComparisonToken result;
  result.begin = token_.begin;
  result.text = token_.text;
  if (token_.kind == TokenKind::kOperator) {
    static constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kOps = {
        {{"<", CompareOp::kLess},
         {"<=", CompareOp::kLessEqual},
         {">", CompareOp::kGreater},
         {">=", CompareOp::kGreaterEqual},
         {"==", CompareOp::kEqual},
         {"!=", CompareOp::kNotEqual}}};
    const auto* found = std::find_if(kOps.begin(), kOps.end(),
                                     [&](const auto& op) { return op.first == token_.text; });
    if (found == kOps.end()) return std::nullopt;
    result.op = found->second;
    result.end = token_.end;
    advance();
    return result;
  }
  if (at_name("is")) {
    fail_here("'is' is not supported; compare with == None or != None");
  }
  if (at_name("not")) {
    advance();
    if (!at_name("in")) fail_unexpected("expected 'in' after 'not'");
    result.kind = ComparisonToken::Kind::kNotIn;
  } else if (at_name("in")) {
    result.kind = ComparisonToken::Kind::kIn;
  } else {
    return std::nullopt;
  }
  result.end = token_.end;
  advance();
  return result;
}

Operand FilterParser::parse_comparison() {
  Operand left = parse_bit_or();
  std::vector<FilterNode> parts;
  bool chained = false;
  while (auto op = take_comparison()) {
    Operand right = parse_bit_or();
    if (op->kind == ComparisonToken::Kind::kCompare) {
      parts.push_back(compare(text_, left, *op, right));
    } else {
      if (chained) fail_at(text_, op->begin, op->end, "'in' cannot be part of a chain");
      parts.push_back(member(text_, left, *op, right));
      if (const auto next = take_comparison()) {
        fail_at(text_, next->begin, next->end, "'in' cannot be part of a chain");
      }
      break;
    }
    chained = true;
    left = std::move(right);
  }
  if (parts.empty()) return left;
  if (parts.size() > 1) return join(FilterNode::Kind::kAnd, std::move(parts));
  return condition_operand(std::move(parts[0]));
}

Operand FilterParser::parse_bit_or() { return parse_bit("|", FilterNode::Kind::kOr); }

Operand FilterParser::parse_bit(std::string_view op, FilterNode::Kind kind) {
  const bool is_or = kind == FilterNode::Kind::kOr;
  Operand first = is_or ? parse_bit("&", FilterNode::Kind::kAnd) : parse_sign();
  if (!at_operator(op)) return first;
  std::vector<FilterNode> parts;
  parts.push_back(as_joined(std::move(first), op));
  while (take_operator(op)) {
    Operand next = is_or ? parse_bit("&", FilterNode::Kind::kAnd) : parse_sign();
    parts.push_back(as_joined(std::move(next), op));
  }
  return join(kind, std::move(parts));
}

FilterNode FilterParser::as_joined(Operand operand, std::string_view op) const {
  if (operand.kind != Operand::Kind::kCondition) {
    fail(operand, "'" + std::string(op) + "' binds more tightly than comparisons and joins " +
                      std::string(describe(operand)) +
                      " here; put each condition in parentheses: (a == 1) " + std::string(op) +
                      " (b == 2)");
  }
  return std::move(operand.condition);
}

FilterNode parse_filter(std::string_view text) { return FilterParser(text).parse(); }

}  // namespace penstock::table
