#include "codec/narrow.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "codec/byteshuffle.h"

// Every path of every kernel against definitions written out here, over odd lengths and unaligned
// buffers.

namespace penstock::codec {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> all;
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kSse2, SimdLevel::kAvx2}) {
    if (level <= best_simd_level()) all.push_back(level);
  }
  return all;
}

std::vector<size_t> lengths() {
  std::vector<size_t> all;
  for (size_t length = 0; length < 140; ++length) all.push_back(length);
  for (const size_t length : {255U, 256U, 257U, 1000U, 4095U, 8192U, 8193U}) all.push_back(length);
  return all;
}

/// `bytes` again, `shift` bytes after an aligned address.
class Unaligned {
 public:
  Unaligned(std::span<const std::byte> bytes, size_t shift) : memory_(bytes.size() + 64 + shift) {
    const auto address = std::bit_cast<uintptr_t>(memory_.data());
    start_ = (64 - address % 64) % 64 + shift;
    size_ = bytes.size();
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + static_cast<ptrdiff_t>(start_));
  }
  std::span<std::byte> span() { return std::span(memory_).subspan(start_, size_); }

 private:
  Bytes memory_;
  size_t start_ = 0;
  size_t size_ = 0;
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes shuffle(const Bytes& cells, size_t width) {
  Bytes planes(cells.size());
  const size_t count = cells.size() / width;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < width; ++k) planes[k * count + i] = cells[i * width + k];
  }
  for (size_t i = count * width; i < cells.size(); ++i) planes[i] = cells[i];
  return planes;
}

TEST(Byteshuffle, EveryPathUndoesShuffling) {
  std::mt19937_64 random(1);
  for (const size_t width : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) {
    for (const size_t length : lengths()) {
      for (const size_t tail : {size_t{0}, width - 1}) {
        Bytes cells(length * width + tail);
        for (std::byte& byte : cells) byte = static_cast<std::byte>(random());
        const size_t shift = random() % 33;
        Unaligned planes(shuffle(cells, width), shift);
        for (const SimdLevel level : levels()) {
          Unaligned out(Bytes(cells.size()), random() % 33);
          unshuffle_bytes(width, planes.span(), out.span(), level);
          ASSERT_TRUE(std::equal(cells.begin(), cells.end(), out.span().begin()))
              << width << " x " << length << " level " << static_cast<int>(level);
        }
      }
    }
  }
}

template <typename Narrow>
using NarrowFunction = bool (*)(std::span<const std::byte>, std::span<Narrow>, SimdLevel) noexcept;

template <typename Narrow>
void check_narrow(NarrowFunction<Narrow> plain, NarrowFunction<Narrow> shuffled) {
  std::mt19937_64 random(2);
  constexpr uint64_t kMax = std::numeric_limits<Narrow>::max();
  for (const size_t length : lengths()) {
    std::vector<uint64_t> values(length);
    for (uint64_t& value : values) value = random() & kMax;
    // Once all fit; then one does not, by a bit anywhere above.
    for (const bool fits : {true, false}) {
      if (!fits) {
        if (length == 0) continue;
        const unsigned first = 8 * sizeof(Narrow);
        values[random() % length] |= uint64_t{1} << (first + random() % (64 - first));
      }
      const Bytes cells = bytes_of(values);
      Unaligned in(cells, random() % 9);
      Unaligned planes(shuffle(cells, 8), random() % 9);
      for (const SimdLevel level : levels()) {
        std::vector<Narrow> out(length), from_planes(length);
        ASSERT_EQ(plain(in.span(), out, level), fits) << length;
        ASSERT_EQ(shuffled(planes.span(), from_planes, level), fits) << length;
        if (!fits) continue;
        ASSERT_TRUE(std::equal(values.begin(), values.end(), out.begin())) << length;
        ASSERT_EQ(out, from_planes);
      }
    }
  }
}

TEST(Narrow, Int64ToUInt16) { check_narrow<uint16_t>(narrow_to_uint16, unshuffle_to_uint16); }
TEST(Narrow, Int64ToUInt32) { check_narrow<uint32_t>(narrow_to_uint32, unshuffle_to_uint32); }

template <typename Bits>
using CodeFunction = bool (*)(std::span<const std::byte>, std::span<uint8_t>, Escapes<Bits>&,
                              size_t, SimdLevel);

/// A value is its own code when a code's value has exactly its bits.
template <typename T, typename Bits>
void expected_codes(const std::vector<T>& values, std::vector<uint8_t>& codes,
                    Escapes<Bits>& escapes) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t code = kEscape;
    const Bits bits = std::bit_cast<Bits>(values[i]);
    for (unsigned candidate = 0; candidate < kEscape; ++candidate) {
      if (bits == std::bit_cast<Bits>(static_cast<T>(candidate))) {
        code = static_cast<uint8_t>(candidate);
        break;
      }
    }
    codes.push_back(code);
    if (code == kEscape) escapes.push_back({static_cast<uint32_t>(i), bits});
  }
}

template <typename T, typename Bits>
void check_codes(CodeFunction<Bits> plain, CodeFunction<Bits> shuffled,
                 const std::vector<T>& odd_values) {
  std::mt19937_64 random(3);
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
      for (const SimdLevel level : levels()) {
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
  // All 65,536 patterns that the shuffled path decides by, with the lower bytes zero and not.
  for (const uint32_t low : {0U, 1U, 0x0100U}) {
    std::vector<float> values;
    for (uint32_t high = 0; high < 65536; ++high) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
    std::vector<uint8_t> expected;
    Escapes<uint32_t> expected_escapes;
    expected_codes(values, expected, expected_escapes);
    const Bytes planes = shuffle(bytes_of(values), 4);
    for (const SimdLevel level : levels()) {
      std::vector<uint8_t> codes(values.size());
      Escapes<uint32_t> escapes;
      ASSERT_TRUE(shuffled_float32_to_codes(planes, codes, escapes, kAnyNumber, level));
      EXPECT_EQ(codes, expected);
      EXPECT_EQ(escapes, expected_escapes);
    }
  }
}

TEST(Codes, CodeOfOtherTypes) {
  EXPECT_EQ(code_of<int8_t>(-1), kEscape);
  EXPECT_EQ(code_of<int8_t>(127), 127);
  EXPECT_EQ(code_of<uint8_t>(254), 254);
  EXPECT_EQ(code_of<uint8_t>(255), kEscape);
  EXPECT_EQ(code_of<int16_t>(-254), kEscape);
  EXPECT_EQ(code_of<uint16_t>(254), 254);
  EXPECT_EQ(code_of<uint64_t>(~uint64_t{0}), kEscape);
  EXPECT_EQ(code_of<double>(254.0), 254);
  EXPECT_EQ(code_of<double>(-0.0), kEscape);
  EXPECT_EQ(code_of<double>(1.5), kEscape);
}

}  // namespace
}  // namespace penstock::codec
