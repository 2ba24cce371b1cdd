#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Tokens of the value_filter language, by Python's lexical rules: names, numbers, quoted strings
// with escapes and prefixes, operators, comments. Positions are byte offsets in the text.

namespace penstock::table {

enum class TokenKind : uint8_t { kName, kInteger, kFloat, kString, kOperator, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  size_t begin = 0;
  size_t end = 0;

  std::string text;        ///< kName, kOperator: as written; kString: the value, escapes resolved
  uint64_t magnitude = 0;  ///< kInteger
  bool huge = false;       ///< kInteger: more than 64 bits; only `real` holds it then
  double real = 0;         ///< kInteger, kFloat

  bool is(TokenKind wanted, std::string_view wanted_text) const {
    return kind == wanted && text == wanted_text;
  }
};

class FilterLexer {
 public:
  explicit FilterLexer(std::string_view text) : text_(text) {}

  /// The next token. Throws InvalidArgument, which points at the place, if there is no valid token.
  /// As in Python, a line break is white space between brackets and ends the filter elsewhere.
  Token next();

 private:
  void skip_space();
  void read_number(Token& token);
  void read_string(Token& token, bool raw, bool bytes);
  void read_escape(std::string& value, bool bytes);
  bool starts_string(size_t& quote, bool& raw, bool& bytes) const;
  char peek(size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }

  std::string_view text_;
  size_t position_ = 0;
  int open_brackets_ = 0;
};

/// Throws InvalidArgument: the message, then the line of `text` with a caret line under [begin,
/// end).
[[noreturn]] void fail_at(std::string_view text, size_t begin, size_t end,
                          const std::string& message);

}  // namespace penstock::table
