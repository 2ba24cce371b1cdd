#include "plan/order/row_permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"

namespace penstock::plan {
namespace {

constexpr uint64_t kTable = RowPermutation::kTableSize;

RowPermutation order_of(uint64_t seed, uint64_t epoch, uint64_t size) {
  return RowPermutation(random_key(seed, epoch, Purpose::kGlobalOrder), size);
}

/// How many standard deviations a chi-square sum is above (or below) its mean, by the cube root
/// that makes it nearly normal (E. Wilson, M. Hilferty, "The distribution of chi-square", 1931).
double deviations(double chi_square, double freedom) {
  const double mean = 1 - 2 / (9 * freedom);
  return (std::cbrt(chi_square / freedom) - mean) / std::sqrt(2 / (9 * freedom));
}

double chi_square(const std::vector<uint64_t>& counts, double expected) {
  double sum = 0;
  for (const uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

void expect_uniform(const std::vector<uint64_t>& counts, double freedom) {
  const double total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  const double z =
      deviations(chi_square(counts, total / static_cast<double>(counts.size())), freedom);
  EXPECT_LT(std::abs(z), 4.5);
}

TEST(RowPermutation, IsABijectionForAnySize) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  std::vector<uint64_t> sizes = {0, 1, 2, 3, 15, 16, 17, kTable - 1, kTable, kTable + 1};
  for (int i = 0; i < 2000; ++i) sizes.push_back(random() % 300);
  for (int i = 0; i < 30; ++i) sizes.push_back(random() % (4 * kTable));
  for (uint64_t i = 250; i < 260; ++i) sizes.push_back(i * i + 6000);  // near squares, both sides
  for (const uint64_t size : sizes) {
    SCOPED_TRACE("size " + std::to_string(size));
    const RowPermutation order = order_of(random(), random() % 9, size);
    std::vector<bool> seen(size);
    for (uint64_t slot = 0; slot < size; ++slot) {
      const uint64_t position = order.position(slot);
      ASSERT_LT(position, size);
      ASSERT_FALSE(seen[position]);
      seen[position] = true;
      ASSERT_EQ(order.slot(position), slot);
    }
  }
}

TEST(RowPermutation, IsInvertedPointByPointInLargeSizes) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t size = kTable + random() % (uint64_t{1} << (17 + i % 45));
    const RowPermutation order = order_of(random(), 0, size);
    for (int k = 0; k < 20; ++k) {
      const uint64_t slot = random() % size;
      const uint64_t position = order.position(slot);
      ASSERT_LT(position, size);
      ASSERT_EQ(order.slot(position), slot) << "size " << size;
    }
  }
}

// The order of a seed is part of what saved states rely on.
TEST(RowPermutation, IsTheSameEverywhere) {
  const auto first = [](uint64_t size) {
    const RowPermutation order = order_of(7, 3, size);
    std::vector<uint64_t> positions;
    for (uint64_t slot = 0; slot < 4; ++slot) positions.push_back(order.position(slot));
    return positions;
  };
  EXPECT_EQ(first(10), (std::vector<uint64_t>{1, 4, 6, 0}));
  EXPECT_EQ(first(100'000), (std::vector<uint64_t>{76422, 24625, 74788, 41830}));
  EXPECT_EQ(first(uint64_t{5} << 33),
            (std::vector<uint64_t>{2337481004, 3397125184, 28244707569, 36112459081}));
}

TEST(RowPermutation, EveryPermutationOfAFewRowsIsEquallyLikely) {
  for (uint64_t size = 2; size <= 5; ++size) {
    std::map<std::vector<uint64_t>, uint64_t> counts;
    uint64_t permutations = 1;
    for (uint64_t i = 2; i <= size; ++i) permutations *= i;
    for (uint64_t seed = 0; seed < permutations * 200; ++seed) {
      const RowPermutation order = order_of(seed, 1, size);
      std::vector<uint64_t> positions;
      for (uint64_t slot = 0; slot < size; ++slot) positions.push_back(order.position(slot));
      ++counts[positions];
    }
    ASSERT_EQ(counts.size(), permutations);
    std::vector<uint64_t> each;
    each.reserve(counts.size());
    for (const auto& [positions, count] : counts) each.push_back(count);
    expect_uniform(each, static_cast<double>(permutations - 1));
  }
}

constexpr std::array<uint64_t, 4> kSizes = {9'000, kTable, 70'001, 300'007};

// The slot of a row over many seeds, for rows at the start, in the middle and at the end.
TEST(RowPermutation, EveryPlaceIsEquallyLikely) {
  for (const uint64_t size : kSizes) {
    const uint64_t seeds = size < kTable ? 3'000 : 40'000;
    for (const uint64_t slot : {uint64_t{0}, uint64_t{1}, size / 2, size - 1}) {
      SCOPED_TRACE("size " + std::to_string(size) + ", slot " + std::to_string(slot));
      std::vector<uint64_t> parts(100);
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        ++parts[order_of(seed, 0, size).position(slot) * parts.size() / size];
      }
      expect_uniform(parts, 99);
    }
  }
}

// Rows that lie beside each other, or one row of the network's square above the other: where the
// two come, in an 8 x 8 table.
TEST(RowPermutation, PairsOfRowsAreIndependent) {
  for (const uint64_t size : kSizes) {
    const auto side = static_cast<uint64_t>(std::sqrt(static_cast<double>(size))) + 1;
    for (const uint64_t apart : {uint64_t{1}, uint64_t{2}, side, size / 2}) {
      SCOPED_TRACE("size " + std::to_string(size) + ", apart " + std::to_string(apart));
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const RowPermutation order = order_of(seed, 5, size);
        std::vector<uint64_t> table(64);
        for (uint64_t slot = 0; slot + apart < size; ++slot) {
          const uint64_t here = order.position(slot) * 8 / size;
          ++table[here * 8 + order.position(slot + apart) * 8 / size];
        }
        expect_uniform(table, 63);
      }
    }
  }
}

/// Correlation of two orders of the same rows, in standard deviations of that of random ones.
double correlation(const RowPermutation& a, const RowPermutation& b) {
  const auto size = static_cast<double>(a.size());
  double sum = 0;
  for (uint64_t slot = 0; slot < a.size(); ++slot) {
    sum += (static_cast<double>(a.position(slot)) / size - 0.5) *
           (static_cast<double>(b.position(slot)) / size - 0.5);
  }
  return sum * 12 / std::sqrt(size);
}

TEST(RowPermutation, EpochsAndSeedsHaveNothingToDoWithEachOther) {
  for (const uint64_t size : kSizes) {
    for (uint64_t other = 1; other <= 4; ++other) {
      EXPECT_LT(std::abs(correlation(order_of(0, 0, size), order_of(0, other, size))), 4.5);
      EXPECT_LT(std::abs(correlation(order_of(0, 0, size), order_of(other, 0, size))), 4.5);
      EXPECT_LT(std::abs(correlation(order_of(0, other, size), order_of(other, 0, size))), 4.5);
    }
  }
}

// As many rows stay where they are as in a random order: a Poisson number with mean 1.
TEST(RowPermutation, OneRowStaysWhereItIs) {
  for (const uint64_t size : {uint64_t{1'000}, uint64_t{66'000}}) {
    const uint64_t orders = size < kTable ? 2'000 : 100;
    uint64_t fixed = 0;
    for (uint64_t seed = 0; seed < orders; ++seed) {
      const RowPermutation order = order_of(seed, 0, size);
      for (uint64_t slot = 0; slot < size; ++slot) fixed += order.position(slot) == slot;
    }
    const auto mean = static_cast<double>(orders);
    EXPECT_LT(std::abs(static_cast<double>(fixed) - mean), 4.5 * std::sqrt(mean));
  }
}

}  // namespace
}  // namespace penstock::plan
