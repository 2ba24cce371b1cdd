#include "plan/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "plan/order/unit_order.h"

namespace penstock::plan {
namespace {

// Keys are fixed, so these statistics are the same in every run; 5 deviations are far out all the
// same: a generator that is off by a few per cent fails by dozens.
constexpr double kDeviations = 5;

void expect_uniform(const std::vector<uint64_t>& counts, const std::string& what,
                    size_t degrees_lost = 1) {
  const double total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  const double expected = total / static_cast<double>(counts.size());
  double chi_square = 0;
  for (const uint64_t count : counts) {
    chi_square += std::pow(static_cast<double>(count) - expected, 2) / expected;
  }
  const double degrees = static_cast<double>(counts.size() - degrees_lost);
  EXPECT_LT(chi_square, degrees + kDeviations * std::sqrt(2 * degrees) + kDeviations) << what;
  EXPECT_GT(chi_square, degrees - kDeviations * std::sqrt(2 * degrees)) << what;
}

TEST(RandomStream, BelowIsUniform) {
  for (const uint64_t bound : {2u, 3u, 7u, 10u, 100u, 1000u}) {
    RandomStream random(random_key(1, bound, Purpose::kDeal));
    std::vector<uint64_t> counts(bound);
    for (int i = 0; i < 200000; ++i) ++counts[random.below(bound)];
    expect_uniform(counts, "bound " + std::to_string(bound));
  }
  // Where rejection matters: without it every third number would come twice as often.
  RandomStream random(5);
  const uint64_t bound = uint64_t{3} << 62;
  std::vector<uint64_t> counts(3);
  for (int i = 0; i < 100000; ++i) ++counts[random.below(bound) % 3];
  expect_uniform(counts, "3 * 2^62");
}

// The order of an epoch is a promise across machines and versions: these must never change.
TEST(RandomStream, ValuesAreFixed) {
  RandomStream random(random_key(1, 2, Purpose::kUnitOrder));
  EXPECT_EQ(random.next(), 7366246977570631506u);
  EXPECT_EQ(random.below(1000000), 483583u);
  EXPECT_EQ(KeyedPermutation(7, 1000000)(123456), 742374u);
  EXPECT_EQ(stratified_order(7, 3), (std::vector<uint32_t>{2, 6, 0, 3, 4, 1, 5}));
}

TEST(KeyedPermutation, IsABijection) {
  std::vector<bool> seen;
  for (uint64_t size = 1; size < 3000; size = size < 300 ? size + 1 : size * 9 / 8) {
    const KeyedPermutation permutation(size * 31, size);
    seen.assign(size, false);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t value = permutation(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]) << size;
      seen[value] = true;
    }
  }
  const uint64_t large = (uint64_t{1} << 21) + 12345;
  const KeyedPermutation permutation(1, large);
  seen.assign(large, false);
  for (uint64_t i = 0; i < large; ++i) seen[permutation(i)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
  for (const uint64_t size : {uint64_t{1} << 40, (uint64_t{1} << 62) + 1}) {
    const KeyedPermutation huge(2, size);
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_LT(huge(size - 1 - i), size);
  }
}

TEST(KeyedPermutation, SmallOnesAreUniformOverAllPermutations) {
  for (uint64_t size = 2; size <= 6; ++size) {
    std::vector<uint64_t> order(size);
    std::iota(order.begin(), order.end(), 0u);
    std::vector<std::vector<uint64_t>> all;
    do all.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    std::vector<uint64_t> counts(all.size());
    for (uint64_t key = 0; key < 200 * all.size(); ++key) {
      const KeyedPermutation permutation(mix64(key), size);
      for (uint64_t i = 0; i < size; ++i) order[i] = permutation(i);
      ++counts[static_cast<size_t>(std::lower_bound(all.begin(), all.end(), order) - all.begin())];
    }
    expect_uniform(counts, "permutations of " + std::to_string(size));
  }
}

TEST(KeyedPermutation, EveryValueIsAsLikelyAtEveryPlace) {
  for (uint64_t size = 2; size <= 100; size = size < 20 ? size + 1 : size + 13) {
    std::vector<uint64_t> counts(size * size), pairs(size * size);
    for (uint64_t key = 0; key < 20000; ++key) {
      const KeyedPermutation permutation(key, size);
      for (uint64_t i = 0; i < size; ++i) ++counts[i * size + permutation(i)];
      ++pairs[permutation(0) * size + permutation(size - 1)];
    }
    // A permutation matrix has (n - 1)^2 degrees of freedom of its n^2 entries; the statistic is
    // scaled by n / (n - 1).
    const double n = static_cast<double>(size);
    double chi_square = 0;
    for (const uint64_t count : counts) {
      chi_square += std::pow(static_cast<double>(count) - 20000 / n, 2) / (20000 / n);
    }
    chi_square *= (n - 1) / n;
    const double degrees = (n - 1) * (n - 1);
    EXPECT_NEAR(chi_square, degrees, kDeviations * std::sqrt(2 * degrees) + kDeviations) << size;
    // Two values together: all pairs but the equal ones.
    std::vector<uint64_t> unequal;
    for (uint64_t i = 0; i < size * size; ++i) {
      if (i / size != i % size) unequal.push_back(pairs[i]);
    }
    expect_uniform(unequal, "pairs of " + std::to_string(size));
  }
}

TEST(KeyedPermutation, LargeOnesScatterNeighbours) {
  for (const uint64_t size : {1000u, 2048u, 65536u, 1000003u}) {
    std::vector<uint64_t> places(16), distances(16);
    for (uint64_t key = 0; key < 200; ++key) {
      const KeyedPermutation permutation(key, size);
      for (uint64_t i = 0; i + 1 < size; i += size / 100 + 1) {
        const uint64_t a = permutation(i), b = permutation(i + 1);
        ++places[a * 16 / size];
        ++distances[(b + size - a) % size * 16 / size];
      }
    }
    expect_uniform(places, "places of " + std::to_string(size));
    expect_uniform(distances, "distances of " + std::to_string(size));
    // The mean place of a stretch of neighbours is the middle.
    const KeyedPermutation permutation(3, size);
    double sum = 0;
    const uint64_t stretch = size / 10;
    for (uint64_t i = 0; i < stretch; ++i) sum += static_cast<double>(permutation(i));
    const double n = static_cast<double>(size);
    EXPECT_NEAR(sum / static_cast<double>(stretch), n / 2,
                kDeviations * n / std::sqrt(12.0 * static_cast<double>(stretch)));
  }
}

TEST(StratifiedOrder, EveryUnitIsAsLikelyAtEveryPlace) {
  for (uint32_t count = 1; count <= 17; ++count) {
    std::vector<uint64_t> places(count * count);
    for (uint64_t key = 0; key < 20000; ++key) {
      const auto order = stratified_order(count, key);
      ASSERT_EQ(order.size(), count);
      for (uint32_t i = 0; i < count; ++i) ++places[i * count + order[i]];
    }
    const double expected = 20000.0 / count;
    for (const uint64_t times : places) {
      EXPECT_NEAR(static_cast<double>(times), expected, 6 * std::sqrt(expected)) << count;
    }
  }
}

TEST(StratifiedOrder, EveryStretchHoldsAllPartsOfTheStore) {
  for (const uint32_t count : {64u, 1024u, 5000u, 4883u, 77777u}) {
    const auto order = stratified_order(count, 9 + count);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(sorted[i], i);
    for (const uint32_t parts : {2u, 4u, 16u}) {
      for (const uint32_t window : {64u, 300u, 1000u}) {
        if (window > count) continue;
        std::vector<uint32_t> in_window(parts);
        const auto part_of = [&](uint32_t unit) {
          return static_cast<size_t>(uint64_t{unit} * parts / count);
        };
        for (uint32_t i = 0; i < count; ++i) {
          ++in_window[part_of(order[i])];
          if (i >= window) --in_window[part_of(order[i - window])];
          if (i + 1 < window) continue;
          // A random order would be off by up to 4 sqrt(window / parts); this one by a few.
          for (const uint32_t held : in_window) {
            ASSERT_NEAR(held, static_cast<double>(window) / parts, 10) << count << " at " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::plan
