#include "base/memory/mapped_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "base/memory/memory_page.h"
#include "base/testing/test_seed.h"

namespace penstock {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Whether the system has memory for all pages of these bytes.
bool is_resident(std::byte* data, size_t bytes) {
  std::vector<unsigned char> pages(whole_memory_pages(bytes) / memory_page_bytes());
  EXPECT_EQ(::mincore(data, bytes, pages.data()), 0);
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

/// Whether the system can make pages resident on demand: Linux from 5.14 on.
bool can_populate() {
#if defined(MADV_POPULATE_WRITE)
  const MappedRegion page = MappedRegion::sparse(memory_page_bytes());
  return ::madvise(page.data(), memory_page_bytes(), MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

TEST(MappedRegion, IsFilledPieceByPieceFromSeveralThreads) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    const size_t bytes = 1 + random() % (random() % 2 == 0 ? 64 * kMiB : kMiB);
    const MappedRegion region = MappedRegion::filled_once(bytes);
    ASSERT_EQ(region.size(), bytes);
    const size_t piece = memory_page_bytes() * (1 + random() % 512);
    std::vector<std::thread> threads;
    for (size_t first = 0; first < 2; ++first) {
      threads.emplace_back([&, first] {
        for (size_t at = first * piece; at < bytes; at += 2 * piece) {
          const size_t length = std::min(piece, bytes - at);
          region.make_resident(region.data() + at, whole_memory_pages(length));
          std::fill_n(region.data() + at, length, std::byte(at / piece % 251 + 1));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t at = 0; at < bytes; at += 509) {
      ASSERT_EQ(region.data()[at], std::byte(at / piece % 251 + 1)) << at << " of " << bytes;
    }
  }
}

TEST(MappedRegion, IsZeroAndResidentBeforeItIsWritten) {
  if (!can_populate()) GTEST_SKIP() << "pages are made resident by the first write";
  for (const size_t bytes : {4 * kMiB, 9 * kMiB, size_t{12'345'678}, size_t{5000}, 300 * kMiB}) {
    const MappedRegion region = MappedRegion::filled_once(bytes);
    region.make_resident(region.data(), whole_memory_pages(bytes));
    EXPECT_TRUE(is_resident(region.data(), bytes));
    EXPECT_TRUE(std::all_of(region.data(), region.data() + bytes,
                            [](std::byte value) { return value == std::byte(0); }));
  }
}

TEST(MappedRegion, TakesNoMemoryBeyondTheLargePagesThatAreFilled) {
  if (!can_populate()) GTEST_SKIP() << "pages are made resident by the first write";
  const MappedRegion region = MappedRegion::filled_once(256 * kMiB);
  region.make_resident(region.data() + 8 * kMiB, kMiB);
  EXPECT_TRUE(is_resident(region.data() + 8 * kMiB, kMiB));
  std::vector<unsigned char> pages(256 * kMiB / memory_page_bytes());
  ASSERT_EQ(::mincore(region.data(), 256 * kMiB, pages.data()), 0);
  const auto resident = static_cast<size_t>(std::count(pages.begin(), pages.end(), 1));
  EXPECT_LE(resident * memory_page_bytes(), 2 * kMiB);
}

}  // namespace
}  // namespace penstock
