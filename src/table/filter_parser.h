#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "table/filter_operand.h"
#include "table/filter_syntax.h"
#include "table/filter_token.h"

// Recursive descent over the tokens, with one function for each level of Python's precedence: or,
// and, not, comparisons, |, &, signs (filter_parser.cc), then literals, names, calls, lists and
// parentheses (filter_primary.cc). Each parser is used once.

namespace penstock::table {

class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : text_(text), lexer_(text) { advance(); }

  FilterNode parse();

 private:
  /// Counts nesting during its lifetime.
  class Nested {
   public:
    explicit Nested(FilterParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxFilterDepth) {
        parser_.fail_here("the filter is nested more than " + std::to_string(kMaxFilterDepth) +
                          " deep");
      }
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    FilterParser& parser_;
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

  [[noreturn]] void fail_here(const std::string& message) const;
  [[noreturn]] void fail(const Operand& at, const std::string& message) const;
  [[noreturn]] void fail_unexpected(const std::string& expected) const;

  Operand parse_or();
  Operand parse_and();
  Operand parse_not();
  Operand parse_comparison();
  std::optional<ComparisonToken> take_comparison();
  Operand parse_bit_or();
  Operand parse_bit(std::string_view op, FilterNode::Kind kind);
  FilterNode as_condition(Operand operand) const;
  FilterNode as_joined(Operand operand, std::string_view op) const;

  Operand parse_sign();
  Operand parse_primary();
  Operand parse_parentheses();
  Operand parse_list();
  Operand parse_name();
  Operand parse_call(const std::string& name, Operand operand);
  Literal take_literal();

  std::string_view text_;
  FilterLexer lexer_;
  Token token_;
  size_t previous_end_ = 0;
  int depth_ = 0;
};

}  // namespace penstock::table
