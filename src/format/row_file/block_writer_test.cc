#include "format/row_file/block_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/row_file/bit_packing.h"

namespace penstock::format::pack {
namespace {

constexpr VectorPath kPaths[] = {VectorPath::kScalar, VectorPath::kAvx2};

bool runs_here(VectorPath path) {
  return path == VectorPath::kScalar || best_vector_path() == path;
}

/// Numbers of all lengths, most of them short.
template <typename T>
std::array<T, kBlockNumbers> random_numbers(std::mt19937_64& random, size_t count) {
  constexpr unsigned kBits = std::min<unsigned>(8 * sizeof(T), kMaxBitWidth);
  const auto common = static_cast<unsigned>(random() % (kBits + 1));
  const auto rare = static_cast<unsigned>(random() % (kBits + 1));
  const uint64_t one_in = 1 + random() % 200;
  std::array<T, kBlockNumbers> numbers{};
  for (size_t i = 0; i < count; ++i) {
    const unsigned bits = random() % one_in == 0 ? rare : common;
    numbers[i] = static_cast<T>(random() & ((uint64_t{1} << bits) - 1));
  }
  return numbers;
}

/// The fewest bytes that any width takes, by what number_block.h says of them.
template <typename T>
size_t fewest_bytes(const std::array<T, kBlockNumbers>& numbers, size_t count,
                    const BlockMask& escapes) {
  size_t least = ~size_t{0};
  for (unsigned width = 0; width <= kMaxBitWidth; ++width) {
    size_t exceptions = 0;
    unsigned high_width = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<unsigned>(std::bit_width(numbers[i]));
      if (bits > width) high_width = std::max(high_width, bits - width);
      exceptions += bits > width || escapes.has(i) ? 1U : 0U;
    }
    if (exceptions > kMaxExceptions) continue;
    least = std::min(
        least, 2 + (exceptions * (kPlaceBits + high_width) + 7) / 8 + (count * width + 7) / 8);
  }
  return least;
}

template <typename T>
void expect_block(BlockWriter& writer, const std::array<T, kBlockNumbers>& numbers, size_t count,
                  const BlockMask& escapes, VectorPath path) {
  const size_t before = writer.bytes().size();
  if constexpr (sizeof(T) == 4) {
    writer.append(numbers.data(), count, escapes);
  } else {
    writer.append(numbers.data(), count);
  }
  const auto written = writer.bytes().subspan(before);
  ASSERT_EQ(written.size(), fewest_bytes(numbers, count, escapes));
  std::vector<std::byte> bytes(written.begin(), written.end());
  bytes.resize(bytes.size() + kBitSlack);
  ByteReader reader(std::span<const std::byte>(bytes).first(written.size()));
  const auto block = NumberBlock::read(reader, static_cast<uint32_t>(count));
  ASSERT_TRUE(reader.empty());
  std::vector<uint32_t> read(count);
  unpack_bits(block.numbers, count, block.width, read.data(), path);
  BlockMask seen;
  block.for_each_exception(static_cast<uint32_t>(count), [&](uint32_t place, uint32_t high) {
    if (high == 0) seen.set(place);
    read[place] |= high << block.width;
  });
  ASSERT_EQ(seen.low, escapes.low);
  ASSERT_EQ(seen.high, escapes.high);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(read[i], numbers[i]) << i;
}

template <typename T>
void expect_blocks(bool with_escapes) {
  const TestSeed seed(sizeof(T));
  std::mt19937_64 random(seed);
  for (const VectorPath path : kPaths) {
    if (!runs_here(path)) continue;
    BlockWriter writer(path);
    for (int round = 0; round < 3000; ++round) {
      if (round % 100 == 0) writer.clear();
      const size_t count = round % 3 == 0 ? 1 + random() % kBlockNumbers : kBlockNumbers;
      auto numbers = random_numbers<T>(random, count);
      BlockMask escapes;
      for (size_t k = with_escapes ? random() % (kMaxExceptions + 1) : 0; k != 0; --k) {
        const size_t place = random() % count;
        escapes.set(place);
        numbers[place] = 0;
      }
      expect_block(writer, numbers, count, escapes, path);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(BlockWriter, FewestBytesAndTheSameNumbers) {
  expect_blocks<uint8_t>(false);
  expect_blocks<uint16_t>(false);
  expect_blocks<uint32_t>(false);
}

TEST(BlockWriter, Escapes) { expect_blocks<uint32_t>(true); }

}  // namespace
}  // namespace penstock::format::pack
