#include "plan/cut/row_deal.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <map>
#include <numeric>
#include <random>

#include "base/testing/test_seed.h"

// Counts are exact, every row is dealt once, and every deal is equally likely.

namespace penstock::plan {
namespace {

std::vector<int64_t> random_ids(std::mt19937_64& random, size_t count) {
  std::vector<int64_t> ids(count);
  int64_t id = static_cast<int64_t>(random() % 1000) + (random() % 2 ? int64_t{1} << 32 : 0) - 500;
  for (int64_t& each : ids) each = id += 1 + static_cast<int64_t>(random() % 3);
  if (!ids.empty() && ids.front() < 0) {
    for (int64_t& each : ids) each += 1000;
  }
  return ids;
}

TEST(RowDeal, CountsAreExactAndEveryRowIsDealtOnce) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t strata = 1 + random() % 5, parts = 1 + random() % 5;
    const auto ids = random_ids(random, random() % 400);
    std::vector<uint16_t> stratum_of(ids.size());
    DealCounts counts{std::vector<uint64_t>(strata * parts), parts};
    for (uint16_t& each : stratum_of) {
      each = static_cast<uint16_t>(random() % strata);
      ++counts.counts[each * parts + random() % parts];
    }
    const auto rows = RowSelection::from_sorted(ids);
    const auto dealt = deal_rows<uint16_t>(rows, stratum_of, counts, static_cast<uint64_t>(round));
    std::vector<uint64_t> found(strata * parts);
    RowSelection all;
    for (size_t part = 0; part < parts; ++part) {
      EXPECT_TRUE((all & dealt[part]).empty());
      all = all | dealt[part];
      for (const int64_t id : dealt[part].to_vector()) {
        ++found[stratum_of[static_cast<size_t>(rows.rank(id))] * parts + part];
      }
    }
    EXPECT_EQ(found, counts.counts);
    EXPECT_TRUE(all == rows);
  }
}

TEST(RowDeal, EveryDealIsEquallyLikely) {
  // 2 of 6 rows to one part, 1 to another: 60 deals. 59 degrees of freedom: 98.3 is passed by 1 in
  // 1,000.
  const auto rows = RowSelection::range(10, 16);
  std::map<std::vector<int64_t>, int> seen;
  constexpr int kDraws = 12'000;
  for (int seed = 0; seed < kDraws; ++seed) {
    const auto dealt = deal_rows<uint8_t>(rows, {}, {{3, 2, 1}, 3}, static_cast<uint64_t>(seed));
    auto key = dealt[1].to_vector();
    key.push_back(dealt[2].at(0));
    ++seen[key];
  }
  EXPECT_EQ(seen.size(), 60u);
  double chi_square = 0;
  for (const auto& [deal, count] : seen) {
    const double off = count - kDraws / 60.0;
    chi_square += off * off / (kDraws / 60.0);
  }
  EXPECT_LT(chi_square, 98.3);
}

TEST(RowDeal, CountsThatDoNotFitAreRefused) {
  const auto rows = RowSelection::range(0, 4);
  const std::vector<uint8_t> strata = {0, 0, 1, 1};
  EXPECT_THROW(deal_rows<uint8_t>(rows, strata, {{1, 1, 1, 0}, 2}, 0), InvalidArgument);
  EXPECT_THROW(deal_rows<uint8_t>(rows, strata, {{1, 1, 1, 2}, 2}, 0), InvalidArgument);
  EXPECT_THROW(deal_rows<uint8_t>(rows, strata, {{1, 1}, 2}, 0), InvalidArgument);
  EXPECT_THROW(deal_rows<uint8_t>(rows, strata, {{1, 1, 2}, 2}, 0), InvalidArgument);
  EXPECT_THROW(deal_rows<uint8_t>(rows, strata, {{}, 0}, 0), InvalidArgument);
  const std::vector<uint8_t> short_strata = {0, 0};
  EXPECT_THROW(deal_rows<uint8_t>(rows, short_strata, {{2}, 1}, 0), InvalidArgument);
  EXPECT_TRUE(deal_rows<uint8_t>({}, {}, {{0, 0}, 2}, 0)[1].empty());
}

}  // namespace
}  // namespace penstock::plan
