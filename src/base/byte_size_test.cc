#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ByteSize, IsReadableAndTrue) {
  const auto up = [](uint64_t bytes) { return byte_size(bytes, Rounding::kUp); };
  const auto down = [](uint64_t bytes) { return byte_size(bytes, Rounding::kDown); };
  EXPECT_EQ(up(0), "0 bytes");
  EXPECT_EQ(up(1), "1 byte");
  EXPECT_EQ(up(1023), "1023 bytes");
  EXPECT_EQ(up(1024), "1.0 KiB");
  EXPECT_EQ(up(1025), "1.1 KiB");
  EXPECT_EQ(down(1125), "1.0 KiB");
  EXPECT_EQ(up((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(down((1 << 20) - 1), "1023.9 KiB");
  EXPECT_EQ(up(25165824), "24.0 MiB");
  EXPECT_EQ(up(25165825), "24.1 MiB");
  EXPECT_EQ(down(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(down(uint64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(down(UINT64_MAX), "16383.9 PiB");
  EXPECT_EQ(up(UINT64_MAX), "16384.0 PiB");
}

}  // namespace
}  // namespace penstock
