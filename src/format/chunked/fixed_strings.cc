#include "format/chunked/fixed_strings.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/concat.h"
#include "base/utf8.h"

namespace penstock::format::chunked {
namespace {

uint32_t code_point_at(std::span<const std::byte> cell, size_t index) {
  uint32_t point = 0;
  std::memcpy(&point, cell.data() + 4 * index, sizeof(point));
  return point;
}

void append_code_point(uint32_t point, std::vector<std::byte>& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<std::byte>(byte)); };
  const auto put_rest = [&](int shift) { put(0x80U | (point >> shift & 0x3FU)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0U | point >> 6);
    put_rest(0);
  } else if (point < 0x10000) {
    if (point >= 0xD800 && point < 0xE000) {
      throw CorruptData(concat("a string has a surrogate as code point: ", point));
    }
    put(0xE0U | point >> 12);
    put_rest(6);
    put_rest(0);
  } else if (point < 0x110000) {
    put(0xF0U | point >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  } else {
    throw CorruptData(concat("a string has a code point beyond Unicode: ", point));
  }
}

/// The code point that starts at `at` of valid UTF-8, which is moved behind it.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<uint8_t>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t point = first & (0x3FU >> more);
  for (int i = 0; i < more; ++i) point = point << 6 | (static_cast<uint8_t>(text[at++]) & 0x3FU);
  return point;
}

}  // namespace

void append_fixed(std::span<const std::byte> cell, StringForm form,
                  std::vector<std::byte>& characters) {
  if (form != StringForm::kFixedUtf32) {
    if (form == StringForm::kFixedTerminated) {
      const auto end = std::find(cell.begin(), cell.end(), std::byte{0});
      cell = cell.first(static_cast<size_t>(end - cell.begin()));
    }
    const std::byte padding{form == StringForm::kFixedSpaces ? uint8_t{' '} : uint8_t{0}};
    while (!cell.empty() && cell.back() == padding) cell = cell.first(cell.size() - 1);
    if (!is_utf8({reinterpret_cast<const char*>(cell.data()), cell.size()})) {
      throw CorruptData("a string of bytes must be UTF-8, but is not");
    }
    characters.insert(characters.end(), cell.begin(), cell.end());
    return;
  }
  size_t points = cell.size() / 4;
  while (points != 0 && code_point_at(cell, points - 1) == 0) --points;
  for (size_t i = 0; i < points; ++i) append_code_point(code_point_at(cell, i), characters);
}

bool encode_fixed(std::string_view text, StringForm form, std::span<std::byte> cell) {
  if (form == StringForm::kFixedBytes) {
    if (text.size() > cell.size()) return false;
    std::transform(text.begin(), text.end(), cell.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    return true;
  }
  if (!is_utf8(text)) return false;
  size_t points = 0;
  for (size_t at = 0; at < text.size(); ++points) {
    const uint32_t point = next_code_point(text, at);
    if (points == cell.size() / 4) return false;
    std::memcpy(cell.data() + 4 * points, &point, sizeof(point));
  }
  return true;
}

}  // namespace penstock::format::chunked
