#include <gtest/gtest.h>
#include <penstock/data_type.h>
#include <penstock/error.h>

namespace penstock {
namespace {

TEST(DataType, SizeOfEveryCode) {
  for (uint8_t code = 0; code <= kLastDataType; ++code) {
    const size_t size = size_of(static_cast<DataType>(code));
    EXPECT_TRUE(size == 1 || size == 2 || size == 4 || size == 8) << int{code};
  }
  EXPECT_THROW(size_of(static_cast<DataType>(kLastDataType + 1)), CorruptData);
}

TEST(Error, WithPlaceKeepsTheClass) {
  const auto body = [] { throw CorruptData("bad length 7"); };
  try {
    with_place(body, [] { return std::string("fragment f"); });
    FAIL();
  } catch (const CorruptData& error) {
    EXPECT_STREQ(error.what(), "bad length 7, in fragment f");
  }
}

}  // namespace
}  // namespace penstock
