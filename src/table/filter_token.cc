#include "table/filter_token.h"

#include <array>
#include <charconv>
#include <limits>

namespace penstock::table {
namespace {

// Longest first, so that "<=" is not read as "<".
constexpr std::array<std::string_view, 38> kOperators = {
    "**=", "//=", "<<=", ">>=", "...", "==", "!=", "<=", ">=", "<<", ">>", "**", "//",
    ":=",  "->",  "<>",  "<",   ">",   "&",  "|",  "^",  "~",  "(",  ")",  "[",  "]",
    "{",   "}",   ",",   "+",   "-",   "*",  "/",  "%",  "@",  ".",  ":",  "="};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

/// Out of range, from_chars does not set the value, but Python returns inf or 0.
double out_of_range_value(std::string_view digits) {
  const size_t exponent_at = digits.find_first_of("eE");
  if (exponent_at != std::string_view::npos && digits[exponent_at + 1] == '-') return 0.0;
  const std::string_view mantissa = digits.substr(0, exponent_at);
  if (exponent_at == std::string_view::npos && mantissa.find_first_of("123456789") > 300 &&
      mantissa.find('.') < 300) {
    return 0.0;  // 0.000…1
  }
  return std::numeric_limits<double>::infinity();
}

double parse_real(const std::string& digits) {
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc::result_out_of_range ? out_of_range_value(digits) : value;
}

}  // namespace

Token FilterLexer::next() {
  skip_space();
  Token token;
  token.begin = token.end = position_;
  if (position_ == text_.size()) return token;
  const char c = peek();
  size_t quote = 0;
  bool raw = false, bytes = false;
  if (starts_string(quote, raw, bytes)) {
    position_ = quote;
    read_string(token, raw, bytes);
  } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
    read_number(token);
  } else if (is_name_start(c)) {
    token.kind = TokenKind::kName;
    while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
    token.text = text_.substr(token.begin, position_ - token.begin);
  } else {
    token.kind = TokenKind::kOperator;
    for (const std::string_view candidate : kOperators) {
      if (text_.substr(position_).starts_with(candidate)) {
        token.text = candidate;
        break;
      }
    }
    if (token.text.empty()) {
      const auto code = static_cast<unsigned>(static_cast<unsigned char>(c));
      fail_at(text_, position_, position_ + 1,
              c > ' ' ? std::string("unexpected character '") + c + "'"
                      : "unexpected character of code " + std::to_string(code));
    }
    position_ += token.text.size();
    if (token.text == "(" || token.text == "[" || token.text == "{") ++open_brackets_;
    if (token.text == ")" || token.text == "]" || token.text == "}") --open_brackets_;
  }
  token.end = position_;
  return token;
}

void FilterLexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\t' || c == '\f') {
      ++position_;
    } else if (c == '#') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      position_ += peek(1) == '\n' ? 2 : 3;
    } else if (c == '\n' || c == '\r') {
      if (open_brackets_ <= 0) {
        const size_t rest = text_.find_first_not_of(" \t\r\n\f", position_);
        if (rest != std::string_view::npos && text_[rest] != '#') {
          fail_at(text_, rest, rest + 1,
                  "the filter has text after a line break; put it in parentheses, or end the line "
                  "before with \\");
        }
      }
      ++position_;
    } else {
      return;
    }
  }
}

void FilterLexer::read_number(Token& token) {
  std::string digits;
  const auto take_digits = [&](int base) {
    bool after_digit = false;
    while (true) {
      const char c = peek();
      if (digit_value(c) < base) {
        digits.push_back(c);
        after_digit = true;
      } else if (c == '_' && after_digit && digit_value(peek(1)) < base) {
        after_digit = false;
      } else {
        return;
      }
      ++position_;
    }
  };
  const auto fail = [&](const std::string& message) {
    size_t end = position_;
    while (end < text_.size() && (is_name_part(text_[end]) || text_[end] == '.')) ++end;
    fail_at(text_, token.begin, end, message);
  };

  token.kind = TokenKind::kInteger;
  int base = 10;
  const char second = static_cast<char>(peek(1) | 0x20);
  if (peek() == '0' && (second == 'x' || second == 'o' || second == 'b')) {
    base = second == 'x' ? 16 : second == 'o' ? 8 : 2;
    position_ += 2;
    if (peek() == '_') ++position_;
    take_digits(base);
    if (digits.empty()) fail("a number needs a digit after its prefix");
  } else {
    take_digits(10);
    const bool leading_zero =
        digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos;
    if (peek() == '.') {
      token.kind = TokenKind::kFloat;
      digits.push_back('.');
      ++position_;
      if (is_digit(peek())) take_digits(10);
    }
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() | 0x20) == 'e' && is_digit(peek(1 + sign))) {
      token.kind = TokenKind::kFloat;
      digits.push_back('e');
      if (peek(1) == '-') digits.push_back('-');
      position_ += 1 + sign;
      take_digits(10);
    }
    if (token.kind == TokenKind::kInteger && leading_zero) {
      fail("an integer does not begin with 0; write 0o for octal");
    }
  }
  if ((peek() | 0x20) == 'j' && !is_name_part(peek(1))) fail("complex numbers are not supported");
  if (is_name_part(peek()) && !is_name_start(peek())) fail("this is not a number");
  if (peek() == '_') fail("an underscore in a number stands between two digits");
  if (token.kind == TokenKind::kFloat) {
    token.real = parse_real(digits);
    return;
  }
  for (const char c : digits) {
    const auto digit = static_cast<uint64_t>(digit_value(c));
    const auto radix = static_cast<uint64_t>(base);
    token.real = token.real * base + static_cast<double>(digit);
    if (__builtin_mul_overflow(token.magnitude, radix, &token.magnitude) ||
        __builtin_add_overflow(token.magnitude, digit, &token.magnitude)) {
      token.huge = true;
    }
  }
  if (!token.huge) {
    token.real = static_cast<double>(token.magnitude);
  } else if (base == 10) {
    token.real = parse_real(digits);
  }
}

bool FilterLexer::starts_string(size_t& quote, bool& raw, bool& bytes) const {
  size_t at = position_;
  for (; at < text_.size() && at < position_ + 2; ++at) {
    const auto c = static_cast<char>(text_[at] | 0x20);
    if (text_[at] == '"' || text_[at] == '\'') break;
    if (c != 'r' && c != 'b' && c != 'u' && c != 'f') return false;
  }
  if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) return false;
  std::string prefix(text_.substr(position_, at - position_));
  for (char& c : prefix) c = static_cast<char>(c | 0x20);
  if (prefix.find('f') != std::string::npos) {
    fail_at(text_, position_, at + 1, "f-strings are not supported");
  }
  if (prefix.size() == 2 && prefix != "rb" && prefix != "br") return false;
  raw = prefix.find('r') != std::string::npos;
  bytes = prefix.find('b') != std::string::npos;
  quote = at;
  return true;
}

void FilterLexer::read_string(Token& token, bool raw, bool bytes) {
  token.kind = TokenKind::kString;
  const char quote = peek();
  const bool triple = peek(1) == quote && peek(2) == quote;
  position_ += triple ? 3 : 1;
  while (true) {
    if (position_ >= text_.size() || (!triple && peek() == '\n')) {
      fail_at(text_, token.begin, std::min(position_, text_.size()),
              std::string("a string has no closing ") + std::string(triple ? 3 : 1, quote));
    }
    const char c = peek();
    if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
    if (bytes && (static_cast<unsigned char>(c) & 0x80) != 0) {
      fail_at(text_, position_, position_ + 1, "a bytes literal holds ASCII characters only");
    }
    if (c == '\\' && !raw) {
      read_escape(token.text, bytes);
      continue;
    }
    token.text.push_back(c);
    ++position_;
    if (c == '\\' && position_ < text_.size()) token.text.push_back(text_[position_++]);
  }
  position_ += triple ? 3 : 1;
}

void FilterLexer::read_escape(std::string& value, bool bytes) {
  const size_t begin = position_++;
  if (position_ >= text_.size()) return;  // the caller reports that the string does not end
  const char c = text_[position_++];
  const auto put_code = [&](uint32_t code) {
    if (bytes) {
      value.push_back(static_cast<char>(code));
    } else {
      append_utf8(value, code);
    }
  };
  constexpr std::string_view kFrom = "abfnrtv\\'\"";
  constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
  const size_t simple = kFrom.find(c);
  if (simple != std::string_view::npos) {
    value.push_back(kTo[simple]);
  } else if (c == '\n') {
    return;
  } else if (c >= '0' && c <= '7') {
    auto code = static_cast<uint32_t>(c - '0');
    for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
      code = code * 8 + static_cast<uint32_t>(text_[position_++] - '0');
    }
    put_code(bytes ? code & 0xFF : code);
  } else if (c == 'x' || (!bytes && (c == 'u' || c == 'U'))) {
    const int count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    uint32_t code = 0;
    for (int i = 0; i < count; ++i) {
      if (digit_value(peek()) >= 16) {
        fail_at(text_, begin, position_,
                std::string("\\") + c + " wants " + std::to_string(count) + " hexadecimal digits");
      }
      code = code * 16 + static_cast<uint32_t>(digit_value(text_[position_++]));
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      fail_at(text_, begin, position_, "this escape is not a Unicode character");
    }
    put_code(code);
  } else if (c == 'N' && !bytes) {
    fail_at(text_, begin, position_, "\\N{name} escapes are not supported; use \\u");
  } else {
    value.push_back('\\');  // Python keeps unknown escapes
    --position_;
    value.push_back(text_[position_++]);
  }
}

}  // namespace penstock::table
