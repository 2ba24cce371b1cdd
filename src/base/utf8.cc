#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace penstock {
namespace {

bool between(uint8_t byte, uint8_t low, uint8_t high) noexcept {
  return low <= byte && byte <= high;
}

/// Length of a character with this first byte, and the range of its second byte. Length 0: invalid.
struct Form {
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Form form_of(uint8_t first) noexcept {
  if (first < 0x80) return {1};
  if (between(first, 0xC2, 0xDF)) return {2};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};  // surrogates follow
  if (between(first, 0xE1, 0xEF)) return {3};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (between(first, 0xF1, 0xF3)) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const Form form = form_of(static_cast<uint8_t>(text[at]));
    if (form.length == 0 || form.length > text.size() - at) return false;
    if (form.length > 1 && !between(static_cast<uint8_t>(text[at + 1]), form.low, form.high)) {
      return false;
    }
    for (size_t next = 2; next < form.length; ++next) {
      if (!between(static_cast<uint8_t>(text[at + next]), 0x80, 0xBF)) return false;
    }
    at += form.length;
  }
  return true;
}

}  // namespace penstock
