#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "table/filter_syntax.h"
#include "table/filter_token.h"

namespace penstock::table {
namespace {

constexpr std::array<std::string_view, 35> kKeywords = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

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

struct ComparisonToken {
  enum class Kind : uint8_t { kCompare, kIn, kNotIn };
  Kind kind = Kind::kCompare;
  CompareOp op = CompareOp::kEqual;
  size_t begin = 0, end = 0;
  std::string text;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text) { advance(); }

  FilterNode parse() {
    if (token_.kind == TokenKind::kEnd) fail_here("the filter is empty; expected a comparison");
    Operand whole = parse_or();
    if (token_.kind != TokenKind::kEnd) fail_unexpected("expected 'and', 'or' or the end");
    return as_condition(std::move(whole));
  }

 private:
  /// Counts nesting while it lives.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxFilterDepth) {
        parser_.fail_here("the filter is nested more than " + std::to_string(kMaxFilterDepth) +
                          " deep");
      }
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  void advance() {
    previous_end_ = token_.end;
    token_ = lexer_.next();
  }
  bool at_operator(std::string_view text) const { return token_.is(TokenKind::kOperator, text); }
  bool at_name(std::string_view text) const { return token_.is(TokenKind::kName, text); }
  bool take_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    advance();
    return true;
  }

  [[noreturn]] void fail_here(const std::string& message) const {
    fail_at(text_, token_.begin, token_.end, message);
  }
  [[noreturn]] void fail(const Operand& at, const std::string& message) const {
    fail_at(text_, at.begin, at.end, message);
  }
  [[noreturn]] void fail_unexpected(const std::string& expected) const {
    if (token_.kind == TokenKind::kEnd) fail_here(expected + ", found the end of the filter");
    const std::string found(text_.substr(token_.begin, token_.end - token_.begin));
    if (found == "=") fail_here(expected + ", found '='; equality is written ==");
    if (found == ".") {
      fail_here(expected + ", found '.'; a column with a dot in its name is written attr(\"…\")");
    }
    if (found == "&&" || found == "||" || found == "!") fail_here(expected + ", found " + found);
    fail_here(expected + ", found '" + (found.size() > 40 ? found.substr(0, 40) + "…" : found) +
              "'");
  }

  FilterNode as_condition(Operand operand) const {
    if (operand.kind == Operand::Kind::kCondition) return std::move(operand.condition);
    const bool ends =
        token_.kind == TokenKind::kEnd || at_name("and") || at_name("or") || at_operator(")");
    if (!ends) fail_unexpected("expected a comparison such as ==");
    fail(operand, "expected a condition such as column == value, found only " +
                      std::string(describe(operand)));
  }

  static Operand join(FilterNode::Kind kind, std::vector<FilterNode> parts) {
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

  Operand parse_or() {
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

  Operand parse_and() {
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

  Operand parse_not() {
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

  std::optional<ComparisonToken> take_comparison() {
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

  Operand parse_comparison() {
    Operand left = parse_bit_or();
    std::vector<FilterNode> parts;
    bool chained = false;
    while (auto op = take_comparison()) {
      Operand right = parse_bit_or();
      if (op->kind == ComparisonToken::Kind::kCompare) {
        parts.push_back(compare(left, *op, right));
      } else {
        if (chained) fail_at(text_, op->begin, op->end, "'in' cannot be part of a chain");
        parts.push_back(member(left, *op, right));
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
    Operand result;
    result.kind = Operand::Kind::kCondition;
    result.begin = parts[0].begin;
    result.end = parts[0].end;
    result.condition = std::move(parts[0]);
    return result;
  }

  FilterNode compare(const Operand& left, const ComparisonToken& op, const Operand& right) const {
    using Kind = Operand::Kind;
    for (const Operand* side : {&left, &right}) {
      if (side->kind == Kind::kCondition) {
        fail(*side, "a condition cannot be compared with '" + op.text + "'");
      }
      if (side->kind == Kind::kList) fail(*side, "a list stands only after 'in' or 'not in'");
    }
    if (left.kind == Kind::kColumn && right.kind == Kind::kColumn) {
      fail(right,
           "expected a value, found the name '" + right.column + "'; a string is put in quotes");
    }
    if (left.kind == Kind::kValue && right.kind == Kind::kValue) {
      fail_at(text_, left.begin, right.end, "expected a column on one side of '" + op.text + "'");
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

  FilterNode member(const Operand& left, const ComparisonToken& op, const Operand& right) const {
    if (left.kind != Operand::Kind::kColumn) {
      fail(left, "expected a column before 'in', found " + std::string(describe(left)));
    }
    if (right.kind != Operand::Kind::kList) {
      fail(right,
           "expected a list in square brackets after 'in', found " + std::string(describe(right)));
    }
    if (right.list.empty()) fail(right, "expected at least one value in the list");
    FilterNode node;
    node.kind = FilterNode::Kind::kIn;
    node.begin = left.begin;
    node.end = right.end;
    set_column(node, left);
    node.negated = op.kind == ComparisonToken::Kind::kNotIn;
    node.values = right.list;
    return node;
  }

  static void set_column(FilterNode& node, const Operand& column) {
    node.column = column.column;
    node.column_begin = column.begin;
    node.column_end = column.end;
  }

  Operand parse_bit_or() { return parse_bit("|", FilterNode::Kind::kOr); }

  Operand parse_bit(std::string_view op, FilterNode::Kind kind) {
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

  FilterNode as_joined(Operand operand, std::string_view op) const {
    if (operand.kind != Operand::Kind::kCondition) {
      fail(operand, "'" + std::string(op) + "' binds more tightly than comparisons and joins " +
                        std::string(describe(operand)) +
                        " here; put each condition in parentheses: (a == 1) " + std::string(op) +
                        " (b == 2)");
    }
    return std::move(operand.condition);
  }

  Operand parse_sign() {
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

  Operand parse_primary() {
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

  Operand parse_parentheses() {
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

  Operand parse_list() {
    const Nested nested(*this);
    Operand operand;
    operand.kind = Operand::Kind::kList;
    operand.begin = token_.begin;
    advance();
    while (!at_operator("]")) {
      Operand item = parse_sign();
      if (item.kind == Operand::Kind::kColumn) {
        fail(item,
             "expected a value, found the name '" + item.column + "'; a string is put in quotes");
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

  /// The literal at the token. Strings that stand side by side are one, as in Python.
  Literal take_literal() {
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

  Operand parse_name() {
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

  Operand parse_call(const std::string& name, Operand operand) {
    advance();
    const std::string call = name + "(…)";
    if (name == "attr") {
      if (token_.kind != TokenKind::kString) {
        fail_unexpected("expected a column name in quotes in attr(…)");
      }
      operand.kind = Operand::Kind::kColumn;
      operand.column = take_literal().text;
    } else {
      const bool constant = token_.kind == TokenKind::kInteger ||
                            token_.kind == TokenKind::kFloat || token_.kind == TokenKind::kString ||
                            at_name("True") || at_name("False") || at_name("None");
      if (!constant) fail_unexpected("expected a number or a string in val(…)");
      operand.value = token_.kind == TokenKind::kName ? parse_name().value : take_literal();
      operand.from_val = true;
    }
    take_operator(",");
    if (!take_operator(")")) fail_unexpected("expected ')' after the one argument of " + call);
    operand.end = previous_end_;
    return operand;
  }

  std::string_view text_;
  FilterLexer lexer_;
  Token token_;
  size_t previous_end_ = 0;
  int depth_ = 0;
};

}  // namespace

FilterNode parse_filter(std::string_view text) { return Parser(text).parse(); }

}  // namespace penstock::table
