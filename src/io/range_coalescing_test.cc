#include "io/range_coalescing.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <random>
#include <set>

#include "base/testing/test_seed.h"

namespace penstock::io {
namespace {

TEST(RangeCoalescing, NothingWanted) {
  const CoalescedReads merged = coalesce({});
  EXPECT_TRUE(merged.reads.empty());
  EXPECT_EQ(merged.read_bytes, 0u);
}

TEST(RangeCoalescing, GapLimitIsInclusive) {
  const std::vector<ByteRange> wanted{{0, 10}, {20, 10}, {41, 10}};
  const CoalescedReads merged = coalesce(wanted, {.max_gap_bytes = 10, .max_read_bytes = 1000});
  EXPECT_EQ(merged.reads, (std::vector<ByteRange>{{0, 30}, {41, 10}}));
  EXPECT_EQ(merged.wanted_bytes, 30u);
  EXPECT_EQ(merged.read_bytes, 40u);
}

TEST(RangeCoalescing, LongestRead) {
  const std::vector<ByteRange> wanted{{0, 10}, {10, 10}, {20, 10}, {30, 100}};
  const CoalescedReads merged = coalesce(wanted, {.max_gap_bytes = 0, .max_read_bytes = 20});
  EXPECT_EQ(merged.reads, (std::vector<ByteRange>{{0, 20}, {20, 10}, {30, 100}}));
}

TEST(RangeCoalescing, OverflowIsCorrupt) {
  const std::vector<ByteRange> wanted{{UINT64_MAX - 1, 2}};
  EXPECT_THROW(coalesce(wanted), CorruptData);
}

// For random ranges: each piece is in its read at the right place, reads ascend without reading a
// byte twice, and counts are of distinct bytes.
TEST(RangeCoalescing, RandomRanges) {
  const TestSeed seed(7);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::vector<ByteRange> wanted(random() % 20);
    for (auto& range : wanted) range = {random() % 300, random() % 40};
    const CoalescingOptions options{.max_gap_bytes = random() % 20,
                                    .max_read_bytes = 1 + random() % 200};
    const CoalescedReads merged = coalesce(wanted, options);

    ASSERT_EQ(merged.pieces.size(), wanted.size());
    std::set<uint64_t> distinct;
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (uint64_t b = 0; b < wanted[i].length; ++b) distinct.insert(wanted[i].offset + b);
      if (wanted[i].length == 0) continue;
      const ByteRange& read = merged.reads.at(merged.pieces[i].read);
      ASSERT_EQ(read.offset + merged.pieces[i].offset, wanted[i].offset);
      ASSERT_LE(wanted[i].end(), read.end());
    }
    ASSERT_EQ(merged.wanted_bytes, distinct.size());
    uint64_t total = 0;
    for (size_t i = 0; i < merged.reads.size(); ++i) {
      total += merged.reads[i].length;
      ASSERT_TRUE(distinct.contains(merged.reads[i].offset));
      ASSERT_TRUE(distinct.contains(merged.reads[i].end() - 1));
      uint64_t gap = 0;
      for (uint64_t at = merged.reads[i].offset; at < merged.reads[i].end(); ++at) {
        gap = distinct.contains(at) ? 0 : gap + 1;
        ASSERT_LE(gap, options.max_gap_bytes);
      }
      if (i > 0) {
        ASSERT_GE(merged.reads[i].offset, merged.reads[i - 1].end());
      }
    }
    ASSERT_EQ(total, merged.read_bytes);
  }
}

}  // namespace
}  // namespace penstock::io
