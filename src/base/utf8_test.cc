#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace penstock {
namespace {

/// Whether nlohmann's JSON reader accepts the text as UTF-8; it checks by a state table.
bool json_takes(const std::string& text) {
  return !nlohmann::json::parse("\"" + text + "\"", nullptr, false).is_discarded();
}

TEST(Utf8, IsWhatAnotherReaderTakes) {
  size_t valid = 0;
  const auto check = [&](const std::string& text) {
    const bool taken = json_takes(text);
    valid += taken ? 1 : 0;
    ASSERT_EQ(is_utf8(text), taken) << testing::PrintToString(text);
  };
  // All pairs, and all triples of bytes that are near a border.
  for (unsigned a = 0x80; a < 0x100; ++a) {
    for (unsigned b = 0x20; b < 0x100; ++b) {
      if (b == '"' || b == '\\') continue;
      check({static_cast<char>(a), static_cast<char>(b)});
    }
  }
  const std::string borders =
      "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef"
      "\xf0\xf1\xf3\xf4\xf5\xff";
  for (const char a : borders) {
    for (const char b : borders) {
      for (const char c : borders) {
        check({a, b, c});
        for (const char d : borders) check({a, b, c, d});
      }
    }
  }
  EXPECT_GT(valid, 100U);
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string("\0\n\"\\", 4)));
}

}  // namespace
}  // namespace penstock
