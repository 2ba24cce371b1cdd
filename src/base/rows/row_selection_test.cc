#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/row_selection.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "base/testing/test_seed.h"

namespace penstock {
namespace {

using Ids = std::vector<int64_t>;

// Sets with every kind of container: runs, dense noise, sparse noise; near the edges of 2^16 and
// 2^32 rows and of int64.
std::set<int64_t> random_set(std::mt19937_64& rng) {
  static constexpr int64_t kBases[] = {0,
                                       65536 - 40,
                                       (int64_t{1} << 20) - 3,
                                       (int64_t{1} << 32) - 1000,
                                       (int64_t{1} << 32) + 5 * 65536 - 20,
                                       (int64_t{7} << 33) - 50,
                                       std::numeric_limits<int64_t>::max() - 9000};
  std::set<int64_t> ids;
  for (const int64_t base : kBases) {
    const int64_t room = std::min<int64_t>(200000, std::numeric_limits<int64_t>::max() - base);
    switch (rng() % 5) {
      case 0:
        break;
      case 1: {
        const auto length = static_cast<int64_t>(rng() % static_cast<uint64_t>(room));
        for (int64_t i = 0; i < length; ++i) ids.insert(ids.end(), base + i);
        break;
      }
      case 2:
        for (int64_t i = 0; i < std::min<int64_t>(room, 70000); ++i) {
          if (rng() % 2 == 0) ids.insert(ids.end(), base + i);
        }
        break;
      case 3:
        for (int64_t i = 0; i < room; i += 1 + static_cast<int64_t>(rng() % 900)) {
          ids.insert(ids.end(), base + i);
        }
        break;
      default:
        ids.insert(base);
        ids.insert(base + room);
    }
  }
  return ids;
}

Ids listed(const std::set<int64_t>& ids) { return {ids.begin(), ids.end()}; }

void expect_is(const RowSelection& selection, const Ids& ids, std::mt19937_64& rng) {
  ASSERT_EQ(selection.size(), ids.size());
  ASSERT_TRUE(selection.to_vector() == ids);
  for (int i = 0; i < 100 && !ids.empty(); ++i) {
    const size_t position = rng() % ids.size();
    const int64_t id = ids[position];
    EXPECT_EQ(selection.at(position), id);
    EXPECT_EQ(selection.rank(id), position);
    EXPECT_TRUE(selection.contains(id));
    for (const int64_t probe : {id - 1, id, id - static_cast<int64_t>(rng() % 100000)}) {
      const auto it = std::lower_bound(ids.begin(), ids.end(), probe);
      EXPECT_EQ(selection.rank(probe), static_cast<uint64_t>(it - ids.begin())) << probe;
      EXPECT_EQ(selection.contains(probe), it != ids.end() && *it == probe) << probe;
    }
    const size_t count = rng() % (ids.size() - position) % 5000;
    Ids out = {-7};
    selection.copy_positions(position, count, out);
    ASSERT_EQ(out.size(), count + 1);
    EXPECT_TRUE(
        std::equal(out.begin() + 1, out.end(), ids.begin() + static_cast<int64_t>(position)));
    const int64_t begin = id - static_cast<int64_t>(rng() % 3000);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    const int64_t end = id + std::min(static_cast<int64_t>(rng() % 3000), kMost - id);
    const int64_t later = std::min(begin, kMost - 2000) + static_cast<int64_t>(rng() % 2000);
    for (const int64_t stop : {begin, std::min(begin, kMost - 1) + 1, later, end}) {
      const auto it = std::lower_bound(ids.begin(), ids.end(), begin);
      EXPECT_EQ(selection.intersects(begin, stop), it != ids.end() && *it < stop);
      EXPECT_EQ(selection.intersects(0, stop), ids[0] < stop);
    }
    out.clear();
    selection.copy_range(begin, end, out);
    EXPECT_TRUE(out == Ids(std::lower_bound(ids.begin(), ids.end(), begin),
                           std::lower_bound(ids.begin(), ids.end(), end)));
  }
}

TEST(RowSelection, EverythingAgainstStdSet) {
  const TestSeed seed(1);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 12; ++round) {
    const Ids a = listed(random_set(rng)), b = listed(random_set(rng));
    const auto x = RowSelection::from_sorted(a), y = RowSelection::from_sorted(b);
    expect_is(x, a, rng);
    Ids expected;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect_is(x & y, expected, rng);
    expected.clear();
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect_is(x | y, expected, rng);
    expected.clear();
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect_is(x - y, expected, rng);

    EXPECT_EQ(x == y, a == b);
    EXPECT_EQ(x.fingerprint() == y.fingerprint(), a == b);
    // The same sets made in another way: equal, with equal fingerprints, whatever the containers.
    const auto again = (x | y) - (y - x);
    EXPECT_TRUE(again == x);
    EXPECT_EQ(again.fingerprint(), x.fingerprint());
    Ids shuffled = a;
    std::shuffle(shuffled.begin(), shuffled.end(), rng);
    EXPECT_TRUE(RowSelection::from_unsorted(shuffled) == x);

    std::vector<uint64_t> positions;
    Ids taken;
    for (size_t i = rng() % 3; i < a.size(); i += 1 + rng() % (round % 2 == 0 ? 3 : 5000)) {
      positions.push_back(i);
      taken.push_back(a[i]);
    }
    EXPECT_TRUE(x.take(positions).to_vector() == taken);
    const std::string bytes = x.serialize();
    const auto read = RowSelection::deserialize(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(read == x);
    EXPECT_EQ(read.fingerprint(), x.fingerprint());
    expect_is(read, a, rng);
  }
}

TEST(RowSelection, HugeRangesCostNothing) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const auto all = RowSelection::range(0, kEnd);
  EXPECT_EQ(all.size(), static_cast<uint64_t>(kEnd));
  EXPECT_LT(all.memory_bytes(), size_t{4} << 20);
  EXPECT_EQ(all.at(1234567890123456789), 1234567890123456789);
  EXPECT_EQ(all.rank(kEnd), static_cast<uint64_t>(kEnd));
  EXPECT_TRUE(all.contains(kEnd - 1));
  EXPECT_FALSE(all.contains(kEnd));
  EXPECT_TRUE(all.intersects(kEnd - 1, kEnd));
  const Ids few = {0, 5, int64_t{1} << 40, kEnd - 1};
  const auto holes = all - RowSelection::from_sorted(few);
  EXPECT_EQ(holes.size(), all.size() - 4);
  EXPECT_TRUE((all - holes).to_vector() == few);
  EXPECT_TRUE((holes | RowSelection::from_sorted(few)) == all);
  EXPECT_EQ(holes.at(0), 1);
  EXPECT_EQ(holes.at((uint64_t{1} << 40) - 2), (int64_t{1} << 40) + 1);
  EXPECT_TRUE((all & RowSelection::range(3, 9)) == RowSelection::range(3, 9));
  const std::string bytes = holes.serialize();
  EXPECT_TRUE(RowSelection::deserialize(std::as_bytes(std::span(bytes))) == holes);
  const std::vector<uint64_t> positions = {3, (uint64_t{1} << 33) + 1, (uint64_t{1} << 33) + 2,
                                           uint64_t{1} << 50};
  EXPECT_TRUE(all.take(positions).to_vector() == Ids(positions.begin(), positions.end()));
}

TEST(RowSelection, RangesAtEveryEdge) {
  const TestSeed seed(2);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 200; ++round) {
    const int64_t edge = int64_t{1} << (rng() % 2 == 0 ? 16 : 32);
    const int64_t begin = edge - static_cast<int64_t>(rng() % 3);
    const int64_t end = begin + static_cast<int64_t>(rng() % 5) +
                        (round % 3 == 0 ? static_cast<int64_t>(rng() % 100000) : 0);
    Ids ids;
    for (int64_t id = begin; id < end; ++id) ids.push_back(id);
    const auto range = RowSelection::range(begin, end);
    EXPECT_TRUE(range.to_vector() == ids);
    EXPECT_TRUE(range == RowSelection::from_sorted(ids));
    EXPECT_EQ(range.fingerprint(), RowSelection::from_sorted(ids).fingerprint());
  }
}

// A stored fingerprint is compared across machines: it must never change.
TEST(RowSelection, FingerprintIsFixed) {
  EXPECT_EQ(RowSelection().fingerprint(), RowSelection::range(5, 5).fingerprint());
  const Ids ids = {1, 70000, 70001, (int64_t{1} << 32) + 3};
  EXPECT_EQ(RowSelection::from_sorted(ids).fingerprint(), 14376637760644292928u);
  EXPECT_EQ(RowSelection::range(10, 200000).fingerprint(), 4657644660574715505u);
}

TEST(RowSelection, BadArguments) {
  EXPECT_THROW(RowSelection::range(-1, 5), InvalidArgument);
  EXPECT_THROW(RowSelection::range(5, 4), InvalidArgument);
  EXPECT_THROW(RowSelection::from_sorted(Ids{3, 3}), InvalidArgument);
  EXPECT_THROW(RowSelection::from_sorted(Ids{-3, 3}), InvalidArgument);
  EXPECT_THROW(RowSelection::from_unsorted(Ids{3, 1, 3}), InvalidArgument);
  const auto some = RowSelection::range(10, 20);
  EXPECT_THROW(some.at(10), InvalidArgument);
  EXPECT_THROW(RowSelection().at(0), InvalidArgument);
  Ids out;
  EXPECT_THROW(some.copy_positions(5, 6, out), InvalidArgument);
  EXPECT_THROW(some.copy_positions(11, ~uint64_t{0}, out), InvalidArgument);
  some.copy_positions(10, 0, out);
  some.copy_range(-100, 5, out);
  some.copy_range(100, 50, out);
  EXPECT_TRUE(out.empty());
  EXPECT_THROW(some.take(std::vector<uint64_t>{1, 1}), InvalidArgument);
  EXPECT_THROW(some.take(std::vector<uint64_t>{10}), InvalidArgument);
  EXPECT_EQ(some.rank(-5), 0u);
  EXPECT_FALSE(some.contains(-5));
  EXPECT_FALSE(some.intersects(-5, 10));
  EXPECT_TRUE(some.intersects(-5, 11));
  EXPECT_FALSE(some.intersects(20, 100));
  EXPECT_FALSE(some.intersects(15, 15));
}

RowSelection read_back(const std::string& bytes) {
  return RowSelection::deserialize(std::as_bytes(std::span(bytes)));
}

TEST(RowSelection, TruncatedOrFlippedBytesAreCorruptOrAnotherSet) {
  Ids ids;
  for (int64_t i = 0; i < 300; ++i) ids.push_back(i * 3);
  for (int64_t i = 0; i < 6000; ++i) ids.push_back(70000 + i * 2);
  for (int64_t i = 0; i < 500; ++i) ids.push_back(200000 + i);
  ids.push_back(int64_t{1} << 40);
  const auto selection =
      RowSelection::from_sorted(ids) | RowSelection::range(int64_t{1} << 50, int64_t{1} << 51);
  const std::string good = selection.serialize();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(read_back(good.substr(0, length)), CorruptData) << length;
  }
  EXPECT_THROW(read_back(good + '\0'), CorruptData);
  const TestSeed seed(3);
  std::mt19937_64 rng(seed);
  size_t survivors = 0;
  for (size_t round = 0; round < 8000; ++round) {
    std::string bytes = good;
    const size_t flips = 1 + rng() % 3;
    for (size_t i = 0; i < flips; ++i) {
      bytes[rng() % bytes.size()] ^= static_cast<char>(1u << rng() % 8);
    }
    try {
      const auto read = read_back(bytes);
      ++survivors;
      // For accepted bytes, every call and a round trip must work.
      if (read.size() < 100000) {
        const auto rows = read.to_vector();
        EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
        EXPECT_EQ(rows.size(), read.size());
      }
      const auto shared = read & selection;
      EXPECT_LE(shared.size(), read.size());
      EXPECT_TRUE(read_back(read.serialize()) == read);
      EXPECT_EQ((read - shared).size(), read.size() - shared.size());
    } catch (const CorruptData&) {
    }
  }
  EXPECT_GT(survivors, 0u);
  EXPECT_LT(survivors, 6000u);
}

}  // namespace
}  // namespace penstock
