#include "format/cells/narrow_ids.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "codec/testing/shuffled_cells.h"

namespace penstock::format {
namespace {

codec::Bytes stored(const std::vector<uint64_t>& ids, bool shuffled) {
  const codec::Bytes plain = codec::bytes_of(ids);
  return shuffled ? codec::shuffle(plain, 8) : plain;
}

/// Compares every path with plain arithmetic: ids from 0 to `most`, one of them `odd` unless that
/// is 0.
template <typename Out>
void check(uint64_t most, uint64_t odd) {
  const TestSeed seed(most ^ odd);
  std::mt19937_64 random(seed);
  for (const size_t count : codec::lengths()) {
    std::vector<uint64_t> ids(count);
    for (uint64_t& id : ids) id = random() % (most + 1);
    if (odd != 0 && count > 0) ids[random() % count] = odd;
    const auto shift = static_cast<uint32_t>(random() % (most + 1));
    uint64_t high = 0;
    uint32_t min = 0xFFFFFFFFU, max = 0;
    std::vector<Out> expected;
    for (const uint64_t id : ids) {
      high |= id >> (8 * sizeof(Out));
      min = std::min(min, static_cast<uint32_t>(id));
      max = std::max(max, static_cast<uint32_t>(id));
      expected.push_back(static_cast<Out>(id - shift));
    }
    for (const bool shuffled : {false, true}) {
      codec::Unaligned bytes(stored(ids, shuffled), count % 7);
      for (const VectorPath path : codec::levels()) {
        std::vector<Out> found(count + 1, Out{0x5A});
        IdRange range;
        narrow_ids({bytes.span(), shuffled}, count, shift, found.data(), range, path);
        ASSERT_EQ(found.back(), Out{0x5A}) << "written past the end, count " << count;
        found.pop_back();
        ASSERT_EQ(range.high != 0, high != 0) << count;
        if (high != 0) continue;  // all else is refused
        ASSERT_EQ(found, expected) << count << (shuffled ? " as planes" : "");
        ASSERT_EQ(range.min, min) << count;
        ASSERT_EQ(range.max, max) << count;
      }
    }
  }
}

TEST(XNarrowIds, SixteenBits) {
  check<uint16_t>(0xFFFF, 0);
  check<uint16_t>(300, 0);
}

TEST(XNarrowIds, ThirtyTwoBits) {
  check<uint32_t>(0xFFFFFFFF, 0);
  check<uint32_t>(70'000, 0);
}

TEST(XNarrowIds, WhatDoesNotFitShows) {
  for (unsigned bit = 16; bit < 64; ++bit) check<uint16_t>(1000, uint64_t{1} << bit);
  for (unsigned bit = 32; bit < 64; ++bit) check<uint32_t>(1000, uint64_t{1} << bit);
}

TEST(XNarrowIds, RangesAddUp) {
  IdRange range;
  std::vector<uint16_t> out(40);
  for (const uint64_t first : {500U, 100U, 300U}) {
    std::vector<uint64_t> ids(40);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = first + i;
    const auto bytes = stored(ids, false);
    narrow_ids({bytes, false}, ids.size(), 0, out.data(), range, best_vector_path());
  }
  EXPECT_TRUE(range.within(100, 539));
  EXPECT_FALSE(range.within(101, 539));
  EXPECT_FALSE(range.within(100, 538));
}

}  // namespace
}  // namespace penstock::format
