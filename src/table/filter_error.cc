#include <penstock/error.h>

#include <algorithm>

#include "table/filter_token.h"

namespace penstock::table {
namespace {

constexpr size_t kShownColumns = 100;

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_code_point(c); }));
}

}  // namespace

void fail_at(std::string_view text, size_t begin, size_t end, const std::string& message) {
  begin = std::min(begin, text.size());
  end = std::clamp(end, begin, text.size());
  const size_t before = text.substr(0, begin).rfind('\n');
  size_t line_begin = before == std::string_view::npos ? 0 : before + 1;
  size_t line_end = std::min(text.find('\n', begin), text.size());
  end = std::min(end, line_end);

  // A filter may have a list of thousands of values, so show only a window around the place.
  std::string prefix, suffix;
  if (begin - line_begin > kShownColumns / 2) {
    line_begin = begin - kShownColumns / 2;
    while (line_begin < begin && continues_code_point(text[line_begin])) ++line_begin;
    prefix = "... ";
  }
  if (line_end - begin > kShownColumns) {
    line_end = begin + kShownColumns;
    while (line_end > begin && continues_code_point(text[line_end])) --line_end;
    suffix = " ...";
    end = std::min(end, line_end);
  }
  std::string line(text.substr(line_begin, line_end - line_begin));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\t' || c == '\r' || c == '\0'; }, ' ');
  const size_t indent = prefix.size() + code_points(text.substr(line_begin, begin - line_begin));
  const size_t carets = std::max<size_t>(1, code_points(text.substr(begin, end - begin)));
  throw InvalidArgument("value_filter: " + message + "\n  " + prefix + line + suffix + "\n  " +
                        std::string(indent, ' ') + std::string(carets, '^'));
}

}  // namespace penstock::table
