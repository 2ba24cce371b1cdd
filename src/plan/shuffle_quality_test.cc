#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "plan/batch_entropy.h"
#include "plan/epoch_plan.h"

// Measures how well batches are mixed, as in the design's simulation. 10^7 cells in 300 datasets of
// very uneven sizes, each stored together, in bands of 2,048 rows. The measure is the mean entropy
// of the dataset label in batches of 128, as a share of that of a uniform shuffle.

namespace penstock::plan {
namespace {

struct Store {
  std::vector<UnitRows> units;
  std::vector<uint32_t> dataset_of_row;
};

Store make_store(uint64_t rows, size_t datasets, std::mt19937_64& rng) {
  Store store;
  // Log-normal sizes over three decades, as the Census's are.
  std::vector<double> weights(datasets);
  for (double& weight : weights) {
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += static_cast<double>(rng() >> 11) * 0x1p-53;
    weight = std::exp(1.5 * normal);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < datasets; ++i) {
    const auto count = static_cast<size_t>(weights[i] / sum * static_cast<double>(rows)) + 1;
    store.dataset_of_row.insert(store.dataset_of_row.end(), count, static_cast<uint32_t>(i));
  }
  store.dataset_of_row.resize(rows, static_cast<uint32_t>(datasets - 1));
  for (uint64_t row = 0; row < rows; row += 2048) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(2048, rows - row));
    store.units.push_back({static_cast<uint32_t>(row / 2048), row, count, count * uint64_t{5700}});
  }
  return store;
}

struct Quality {
  double mean = 0;   ///< all batches, the first and the last included
  double first = 0;  ///< mean of the first ten
  double last = 0;   ///< of the last ten
};

Quality quality_of(const std::vector<double>& bits) {
  const auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  return {mean(bits.begin(), bits.end()), mean(bits.begin(), bits.begin() + 10),
          mean(bits.end() - 10, bits.end())};
}

// Written apart from what is tested.
double uniform_entropy(std::vector<uint32_t> labels, std::mt19937_64& rng) {
  std::shuffle(labels.begin(), labels.end(), rng);
  const size_t batches = labels.size() / 128;
  double sum = 0;
  for (size_t batch = 0; batch < batches; ++batch) {
    std::map<uint32_t, double> counts;
    for (size_t i = 0; i < 128; ++i) counts[labels[batch * 128 + i]] += 1.0 / 128;
    for (const auto& [label, share] : counts) sum -= share * std::log2(share);
  }
  return sum / static_cast<double>(batches);
}

TEST(BatchEntropy, RefusesLabelsThatAreNoSmallNumbers) {
  const std::vector<UnitRows> units = {{0, 0, 3, 10}};
  const EpochPlan plan(units, EpochOptions(), 1);
  EXPECT_THROW(batch_entropy(plan, std::vector<uint32_t>{0, 1}), InvalidArgument);
  EXPECT_THROW(batch_entropy(plan, std::vector<uint32_t>{0, 1, UINT32_MAX}), InvalidArgument);
  EXPECT_EQ(batch_entropy(plan, std::vector<uint32_t>{2, 2, 2}).bits, std::vector<double>{0});
}

TEST(ShuffleQuality, BatchesAreNearlyAsMixedAsAUniformShuffle) {
  if (has_fewer_cases()) GTEST_SKIP() << "a statistic, which the release build checks";
  std::mt19937_64 rng(1);
  constexpr size_t kDatasets = 300;
  const Store store = make_store(10'000'000, kDatasets, rng);
  const double best = uniform_entropy(store.dataset_of_row, rng);
  // K = 368 is 2 GiB of rows at 5,700 bytes; docs/design/0002-epoch-plan.md has more of the table.
  for (const uint32_t spread : {128u, 368u}) {
    EpochOptions options;
    options.seed = spread;
    const EpochPlan plan(store.units, options, spread);
    const auto entropy = batch_entropy(plan, store.dataset_of_row);
    for (size_t i = 0; i < kDatasets; ++i) {
      EXPECT_EQ(entropy.label_rows[i],
                static_cast<uint64_t>(
                    std::count(store.dataset_of_row.begin(), store.dataset_of_row.end(), i)));
    }
    const auto quality = quality_of(entropy.bits);
    std::printf("K = %u: %.2f %% of uniform, first ten batches %.1f %%, last ten %.1f %%\n", spread,
                100 * quality.mean / best, 100 * quality.first / best, 100 * quality.last / best);
    EXPECT_GT(quality.mean, (spread == 368 ? 0.98 : 0.94) * best);
    EXPECT_GT(quality.first, 0.4 * best);  // 8 units are read by then: ln 8 / 4.07 = 51 %
    EXPECT_GT(quality.last, 0.9 * best);
  }
}

// Workers have stretches of units and a part of the memory each, so that their batches are of fewer
// places: docs/guides/processes.md has the figures.
TEST(ShuffleQuality, WorkersMixWhatTheyHave) {
  std::mt19937_64 rng(2);
  struct Case {
    uint64_t rows;
    uint32_t spread;  // of a loader without workers
    double least;     // share of uniform with 8 workers
  };
  for (const Case& each : {Case{524'288, 256, 0.8}, {524'288, 64, 0.5}}) {
    const Store store = make_store(each.rows, 300, rng);
    const double best = uniform_entropy(store.dataset_of_row, rng);
    double before = 2;
    for (const uint32_t workers : {1u, 2u, 4u, 8u}) {
      double sum = 0;
      uint64_t batches = 0, visits = 0;
      for (uint32_t worker = 0; worker < workers; ++worker) {
        EpochOptions options;
        options.shard = {1, 0, workers, worker};
        const EpochPlan plan(store.units, options, each.spread / workers);
        const auto entropy = batch_entropy(plan, store.dataset_of_row);
        sum = std::accumulate(entropy.bits.begin(), entropy.bits.end(), sum);
        batches += entropy.bits.size();
        visits += plan.visit_count();
      }
      const double share = sum / static_cast<double>(batches) / best;
      std::printf("%llu rows, K = %u / %u: %.1f %% of uniform, %.2f reads of a unit\n",
                  static_cast<unsigned long long>(each.rows), each.spread, workers, 100 * share,
                  static_cast<double>(visits) / static_cast<double>(store.units.size()));
      EXPECT_LT(share, before + 0.005);
      EXPECT_GT(share, each.least);
      before = share;
    }
  }
}

}  // namespace
}  // namespace penstock::plan
