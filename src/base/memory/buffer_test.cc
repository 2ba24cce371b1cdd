#include "base/memory/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "base/memory/memory_page.h"
#include "base/testing/test_seed.h"

namespace penstock {
namespace {

size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * memory_page_bytes();
}

TEST(Buffer, HoldsWhatItWasAskedFor) {
  const TestSeed seed(7);
  std::mt19937_64 random(seed);
  Buffer buffer;
  for (int round = 0; round < 300; ++round) {
    const size_t size = random() % (size_t{1} << (random() % 23));
    const std::byte* const before = buffer.data();
    const size_t capacity = buffer.capacity();
    buffer.resize_discard(size);
    ASSERT_EQ(buffer.size(), size);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
    if (size <= capacity) {
      ASSERT_EQ(buffer.data(), before);
    } else {
      ASSERT_GE(buffer.capacity(), size);
    }
    if (size != 0) std::memset(buffer.data(), round, size);
  }
}

TEST(Buffer, MovesItsBytes) {
  for (const size_t size : {size_t{10}, size_t{5} << 20}) {
    Buffer buffer(size);
    std::memset(buffer.data(), 3, size);
    const std::byte* const bytes = buffer.data();
    Buffer other(std::move(buffer));
    EXPECT_EQ(other.data(), bytes);
    EXPECT_EQ(buffer.size() + buffer.capacity(), 0U);  // NOLINT(bugprone-use-after-move)
    buffer = Buffer(20);
    buffer = std::move(other);
    EXPECT_EQ(buffer.data(), bytes);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.data()[size - 1], std::byte{3});
  }
}

TEST(Buffer, ImpossibleSizesAreRefused) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 100, size_t{1} << 62}) {
    Buffer buffer(10);
    EXPECT_THROW(buffer.resize_discard(size), std::bad_alloc);
    buffer.resize_discard(20);
    EXPECT_EQ(buffer.size(), 20U);
  }
}

// As units of many files do: each has larger buffers than the one before, and something small that
// stays. The heap would keep all that was freed between the small blocks.
TEST(Buffer, FreedMemoryReturnsToTheSystem) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers keep freed memory on purpose";
  std::vector<std::unique_ptr<std::byte[]>> small;
  Buffer{size_t{31} << 20};  // glibc takes blocks up to the largest that was freed from the heap
  const size_t before = resident_bytes();
  for (size_t unit = 0; unit < 64; ++unit) {
    Buffer buffer((size_t{2} << 20) + (unit << 18));
    std::fill_n(buffer.data(), buffer.size(), std::byte{1});
    small.push_back(std::make_unique<std::byte[]>(100'000));
    ASSERT_GE(resident_bytes(), before + buffer.size());
  }
  EXPECT_LT(resident_bytes(), before + (size_t{12} << 20));
}

}  // namespace
}  // namespace penstock
