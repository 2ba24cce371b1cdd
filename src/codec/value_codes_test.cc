#include "codec/value_codes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "base/testing/test_seed.h"
#include "codec/testing/shuffled_cells.h"

// Compares every path of every kernel with definitions written here, for odd lengths and unaligned
// buffers.

namespace penstock::codec {
namespace {

template <typename Bits>
using CodeFunction = bool (*)(std::span<const std::byte>, std::span<uint8_t>, Escapes<Bits>&,
                              size_t, VectorPath);

/// A value has a code if the code's value has exactly its bits.
template <typename T, typename Bits>
void expected_codes(const std::vector<T>& values, std::vector<uint8_t>& codes,
                    Escapes<Bits>& escapes) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t code = kEscapeCode;
    const Bits bits = std::bit_cast<Bits>(values[i]);
    for (unsigned candidate = 0; candidate < kEscapeCode; ++candidate) {
      if (bits == std::bit_cast<Bits>(static_cast<T>(candidate))) {
        code = static_cast<uint8_t>(candidate);
        break;
      }
    }
    codes.push_back(code);
    if (code == kEscapeCode) escapes.push_back({static_cast<uint32_t>(i), bits});
  }
}

template <typename T, typename Bits>
void check_codes(CodeFunction<Bits> plain, CodeFunction<Bits> shuffled,
                 const std::vector<T>& odd_values) {
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  for (const size_t length : lengths()) {
    for (const unsigned odd_share : {0U, 1U, 20U, 100U}) {
      std::vector<T> values(length);
      for (T& value : values) {
        value = static_cast<T>(random() % 255);
        if (random() % 100 < odd_share) value = odd_values[random() % odd_values.size()];
      }
      std::vector<uint8_t> expected;
      Escapes<Bits> expected_escapes;
      expected_codes(values, expected, expected_escapes);
      const Bytes cells = bytes_of(values);
      Unaligned in(cells, random() % 9);
      Unaligned planes(shuffle(cells, sizeof(T)), random() % 9);
      for (const VectorPath level : levels()) {
        for (const bool from_planes : {false, true}) {
          std::vector<uint8_t> codes(length);
          Escapes<Bits> escapes;
          const auto function = from_planes ? shuffled : plain;
          const auto input = from_planes ? planes.span() : in.span();
          ASSERT_TRUE(function(input, codes, escapes, kAnyNumber, level));
          ASSERT_EQ(codes, expected);
          ASSERT_EQ(escapes, expected_escapes);
          if (expected_escapes.empty()) continue;
          escapes.clear();
          ASSERT_FALSE(function(input, codes, escapes, expected_escapes.size() - 1, level));
          escapes.clear();
          ASSERT_TRUE(function(input, codes, escapes, expected_escapes.size(), level));
        }
      }
    }
  }
}

TEST(Codes, Float32) {
  std::vector<float> odd = {-0.0F,
                            -1.0F,
                            -254.0F,
                            255.0F,
                            256.0F,
                            254.5F,
                            0.5F,
                            1e-45F,
                            1e30F,
                            -1e30F,
                            2147483648.0F,
                            -2147483648.0F,
                            32768.0F,
                            65535.0F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::denorm_min(),
                            std::nextafter(3.0F, 4.0F),
                            std::nextafter(254.0F, 0.0F),
                            std::nextafter(255.0F, 0.0F)};
  odd.push_back(std::bit_cast<float>(0xFF800001U));  // a signalling, negative NaN keeps its bits
  check_codes<float, uint32_t>(float32_to_codes, shuffled_float32_to_codes, odd);
}

TEST(Codes, Int32) {
  check_codes<int32_t, uint32_t>(
      int32_to_codes, shuffled_int32_to_codes,
      {-1, -255, 255, 256, 65536, 1 << 24, std::numeric_limits<int32_t>::max(),
       std::numeric_limits<int32_t>::min(), 0x01000001, 511});
}

TEST(Codes, Int64) {
  check_codes<int64_t, uint64_t>(
      int64_to_codes, shuffled_int64_to_codes,
      {-1, -255, 255, 256, int64_t{1} << 32, (int64_t{1} << 32) + 7, int64_t{1} << 56,
       std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 0xFFFFFFFF,
       0x80000000LL, (int64_t{7} << 40) + 3});
}

TEST(Codes, EveryFloat32OfTheUpperHalf) {
  // All 65,536 patterns that decide in the shuffled path, with zero and non-zero lower bytes.
  for (const uint32_t low : {0U, 1U, 0x0100U}) {
    std::vector<float> values;
    for (uint32_t high = 0; high < 65536; ++high) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
    std::vector<uint8_t> expected;
    Escapes<uint32_t> expected_escapes;
    expected_codes(values, expected, expected_escapes);
    const Bytes planes = shuffle(bytes_of(values), 4);
    for (const VectorPath level : levels()) {
      std::vector<uint8_t> codes(values.size());
      Escapes<uint32_t> escapes;
      ASSERT_TRUE(shuffled_float32_to_codes(planes, codes, escapes, kAnyNumber, level));
      EXPECT_EQ(codes, expected);
      EXPECT_EQ(escapes, expected_escapes);
    }
  }
}

TEST(Codes, CodeOfOtherTypes) {
  EXPECT_EQ(code_of<int8_t>(-1), kEscapeCode);
  EXPECT_EQ(code_of<int8_t>(127), 127);
  EXPECT_EQ(code_of<uint8_t>(254), 254);
  EXPECT_EQ(code_of<uint8_t>(255), kEscapeCode);
  EXPECT_EQ(code_of<int16_t>(-254), kEscapeCode);
  EXPECT_EQ(code_of<uint16_t>(254), 254);
  EXPECT_EQ(code_of<uint64_t>(~uint64_t{0}), kEscapeCode);
  EXPECT_EQ(code_of<double>(254.0), 254);
  EXPECT_EQ(code_of<double>(-0.0), kEscapeCode);
  EXPECT_EQ(code_of<double>(1.5), kEscapeCode);
}

}  // namespace
}  // namespace penstock::codec
