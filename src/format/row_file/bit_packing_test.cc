#include "format/row_file/bit_packing.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/row_file/column_sums.h"

namespace penstock::format::pack {
namespace {

constexpr VectorPath kPaths[] = {VectorPath::kScalar, VectorPath::kAvx2};

bool runs_here(VectorPath path) {
  return path == VectorPath::kScalar || best_vector_path() == path;
}

/// Bit by bit, as the header says.
std::vector<std::byte> packed_slowly(const std::vector<uint32_t>& values, unsigned width) {
  std::vector<std::byte> bytes(packed_bytes(values.size(), width));
  for (size_t i = 0; i < values.size(); ++i) {
    for (unsigned k = 0; k < width; ++k) {
      const size_t bit = i * width + k;
      if ((values[i] >> k & 1) != 0) bytes[bit / 8] |= static_cast<std::byte>(1U << (bit % 8));
    }
  }
  return bytes;
}

template <typename T>
void expect_unpacked(const std::vector<std::byte>& bytes, const std::vector<uint32_t>& values,
                     unsigned width, VectorPath path) {
  std::vector<T> out(values.size() + 1, T{77});
  unpack_bits(bytes.data(), values.size(), width, out.data(), path);
  EXPECT_EQ(out.back(), 77);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(out[i], values[i]) << width << ", " << i;
}

/// Higher bits than the width has are left out, in any type and by either path.
template <typename T>
void expect_packed(std::mt19937_64& random, const std::vector<uint32_t>& values, unsigned width,
                   VectorPath path) {
  std::vector<T> noisy((values.size() + 7) / 8 * 8);
  for (size_t i = 0; i < noisy.size(); ++i) {
    const uint64_t above = width == 8 * sizeof(T) ? 0 : random() << width;
    noisy[i] = static_cast<T>(above | (i < values.size() ? values[i] : 0));
  }
  std::vector<std::byte> bytes(packed_bytes(values.size(), width) + kPackSlack);
  pack_bits(noisy.data(), values.size(), width, bytes.data(), path);
  // Bits after the last number may have any value, even in its own byte.
  const size_t whole = values.size() * width / 8;
  const auto expected = packed_slowly(values, width);
  ASSERT_TRUE(
      std::equal(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(whole), bytes.begin()))
      << width << ", " << values.size();
  const auto rest = static_cast<unsigned>(values.size() * width % 8);
  if (rest == 0) return;
  const auto mask = static_cast<std::byte>((1U << rest) - 1);
  ASSERT_EQ(bytes[whole] & mask, expected[whole]) << width << ", " << values.size();
}

TEST(BitPacking, EveryWidthAndLength) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (unsigned width = 0; width <= kMaxBitWidth; ++width) {
    for (const size_t count :
         std::initializer_list<size_t>{0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 127, 128}) {
      std::vector<uint32_t> values(count);
      const uint32_t mask = (uint32_t{1} << width) - 1;
      for (uint32_t& value : values) value = static_cast<uint32_t>(random()) & mask;
      std::vector<std::byte> bytes(packed_bytes(count, width) + kBitSlack, std::byte{0xFF});
      const std::vector<std::byte> exact = packed_slowly(values, width);
      std::copy(exact.begin(), exact.end(), bytes.begin());
      for (const VectorPath path : kPaths) {
        if (!runs_here(path)) continue;
        if (width <= 8) expect_packed<uint8_t>(random, values, width, path);
        if (width <= 16) expect_packed<uint16_t>(random, values, width, path);
        expect_packed<uint32_t>(random, values, width, path);
        if (width <= 16) expect_unpacked<uint16_t>(bytes, values, width, path);
        expect_unpacked<uint32_t>(bytes, values, width, path);
        if (width > 7) continue;
        std::vector<uint8_t> counts(count + 1, 77);
        unpack_counts(bytes.data(), count, width, counts.data(), path);
        EXPECT_EQ(counts.back(), 77);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(counts[i], values[i] + 1);
      }
    }
  }
}

TEST(ColumnSums, PathsAgree) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const size_t count = random() % 100;
    const bool strict = random() % 2 == 0;
    std::vector<uint16_t> gaps(count);
    for (uint16_t& gap : gaps) {
      gap = static_cast<uint16_t>(random() % (random() % 50 == 0 ? 60000 : 600));
    }
    const uint64_t columns = random() % 2 == 0 ? 65536 : 30000 + random() % 35536;
    std::vector<std::byte> scalar(count * 2);
    std::vector<std::byte> vector(count * 2);
    bool scalar_fails = false;
    bool vector_fails = false;
    try {
      sum_gaps(gaps.data(), count, strict, columns, scalar.data(), VectorPath::kScalar);
    } catch (const std::exception&) {
      scalar_fails = true;
    }
    try {
      sum_gaps(gaps.data(), count, strict, columns, vector.data());
    } catch (const std::exception&) {
      vector_fails = true;
    }
    ASSERT_EQ(scalar_fails, vector_fails);
    if (!scalar_fails) {
      ASSERT_EQ(scalar, vector);
      uint64_t sum = 0;
      for (size_t i = 0; i < count; ++i) {
        sum += gaps[i] + (strict && i != 0 ? 1U : 0U);
        const uint64_t column =
            static_cast<uint64_t>(scalar[2 * i]) | static_cast<uint64_t>(scalar[2 * i + 1]) << 8;
        ASSERT_EQ(column, sum);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::format::pack
