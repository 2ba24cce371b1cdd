#include "pipeline/memory/page_pool.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"

namespace penstock::pipeline {
namespace {

TEST(PagePool, PagesAreDistinctAndUsedAgain) {
  MemoryMeter meter;
  PagePool pool(16 * 4096, 4096, meter);
  std::set<std::byte*> pages;
  for (int i = 0; i < 16; ++i) pages.insert(pool.take());
  EXPECT_EQ(pages.size(), 16U);
  EXPECT_EQ(meter.current(), 16U * 4096);
  EXPECT_EQ(pool.spilled_bytes(), 0U);
  for (std::byte* page : pages) pool.give_back(page);
  EXPECT_EQ(pool.used_bytes(), 0U);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(pages.contains(pool.take()));
  EXPECT_EQ(meter.peak(), 16U * 4096);
}

TEST(PagePool, BeyondTheCapacityPagesComeFromTheSpillFile) {
  MemoryMeter meter;
  PagePool pool(4 * 4096, 4096, meter);
  std::vector<std::byte*> pages;
  for (int i = 0; i < 100; ++i) {
    pages.push_back(pool.take());
    std::memset(pages.back(), i, 4096);
  }
  EXPECT_EQ(meter.peak(), 4U * 4096);
  EXPECT_GE(pool.spilled_bytes(), 96U * 4096);
  EXPECT_FALSE(pool.is_spilled(pages[3]));
  EXPECT_TRUE(pool.is_spilled(pages[4]));
  drop_resident(pages[50], 4096);  // the file keeps what was written
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(static_cast<int>(pages[static_cast<size_t>(i)][4095]), i);
  }
  const uint64_t spilled = pool.spilled_bytes();
  for (std::byte* page : pages) pool.give_back(page);
  for (int i = 0; i < 100; ++i) pool.take();
  EXPECT_EQ(pool.spilled_bytes(), spilled);  // nothing new: freed pages first
}

TEST(PagePool, LargeRowsTakeTheMemoryOfIdlePages) {
  MemoryMeter meter;
  PagePool pool(16 * 4096, 4096, meter);
  std::vector<std::byte*> pages;
  pages.reserve(16);
  for (int i = 0; i < 16; ++i) pages.push_back(pool.take());
  for (std::byte* page : pages) pool.give_back(page);
  auto large = pool.take_large(10 * 4096 - 5);
  EXPECT_EQ(large.spilled, 0U);
  std::memset(large.data, 1, 10 * 4096 - 5);
  EXPECT_LE(meter.current(), 16U * 4096);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(pool.is_spilled(pool.take()));
  EXPECT_TRUE(pool.is_spilled(pool.take()));
  auto spilled = pool.take_large(8 * 4096);
  EXPECT_EQ(spilled.spilled, 8U * 4096);
  EXPECT_LE(meter.peak(), 16U * 4096);
  pool.give_back_large(std::move(large));
  pool.give_back_large(std::move(spilled));
  EXPECT_EQ(meter.current(), 6U * 4096);
}

TEST(PagePool, RandomUseKeepsContentsAndCapacity) {
  const TestSeed seed(5);
  std::mt19937_64 random(seed);
  MemoryMeter meter;
  {
    PagePool pool(40 * 8192, 8192, meter);
    std::map<std::byte*, int> pages;
    std::vector<std::pair<PagePool::Large, int>> large;
    for (int step = 0; step < 3000; ++step) {
      const int tag = static_cast<int>(random() % 250);
      const auto choice = random() % 8;
      if (choice < 3) {
        std::byte* const page = pool.take();
        ASSERT_TRUE(pages.emplace(page, tag).second);
        std::memset(page, tag, 8192);
      } else if (choice == 3) {
        const size_t bytes = 8193 + random() % 50000;
        auto one = pool.take_large(bytes);
        std::memset(one.data, tag, bytes);
        large.emplace_back(std::move(one), tag);
      } else if (choice < 7 && !pages.empty()) {
        auto at = std::next(pages.begin(), static_cast<long>(random() % pages.size()));
        ASSERT_EQ(static_cast<int>(at->first[random() % 8192]), at->second);
        pool.give_back(at->first);
        pages.erase(at);
      } else if (!large.empty()) {
        std::swap(large[random() % large.size()], large.back());
        ASSERT_EQ(static_cast<int>(large.back().first.data[8192]), large.back().second);
        pool.give_back_large(std::move(large.back().first));
        large.pop_back();
      }
      ASSERT_LE(meter.current(), 40U * 8192);
    }
    EXPECT_GT(pool.spilled_bytes(), 0U);
  }
  EXPECT_EQ(meter.current(), 0U);
}

TEST(PagePool, NoPlaceToSpillSaysWhatIsNeeded) {
  MemoryMeter meter;
  PagePool pool(4096, 4096, meter);
  pool.take();
  ::setenv("TMPDIR", "/does-not-exist", 1);
  try {
    pool.take();
    ADD_FAILURE() << "no error";
  } catch (const ResourceExhausted& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("/does-not-exist"), std::string::npos) << text;
    EXPECT_NE(text.find("4096 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("memory_budget"), std::string::npos) << text;
  }
  ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace penstock::pipeline
