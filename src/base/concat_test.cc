#include "base/concat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace penstock {
namespace {

TEST(Concat, NumbersOfAnyTypeAreDecimal) {
  EXPECT_EQ(concat(uint8_t{65}, ' ', int8_t{-1}, ' ', UINT64_MAX, ' ', INT64_MIN),
            "65 -1 18446744073709551615 -9223372036854775808");
  EXPECT_EQ(concat(0.5), std::to_string(0.5));
}

TEST(Concat, TextsOfAnyType) {
  const std::string text = "b";
  const char* const c_text = "d";
  EXPECT_EQ(concat("a", text, std::string_view("cx").substr(0, 1), c_text, 'e', text + "f"),
            "abcdebf");
  EXPECT_EQ(concat(), "");
}

}  // namespace
}  // namespace penstock
