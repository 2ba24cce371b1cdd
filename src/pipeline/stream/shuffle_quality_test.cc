// How well batches are mixed with a given budget, without data. The plan's own test
// (plan/shuffle_quality_test.cc) covers the mix by the number of units in the shuffle.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "pipeline/stream/epoch_stream.h"

namespace penstock::pipeline {
namespace {

constexpr uint64_t kCells = 10'000'000;
constexpr uint64_t kNonzeros = 1900;  // of a cell
constexpr int64_t kBand = 2048;
constexpr double kStoredBytes = 1.6;  // of a non-zero, as on the bench's experiments

/// Bands in the Census's layout that are never read.
class UnreadBands : public format::MatrixSource {
 public:
  UnreadBands() {
    info_.row_domain_end = kCells;
    info_.column_domain_end = 60664;
    for (int64_t row = 0; row < info_.row_domain_end; row += kBand) {
      plan::FetchUnit unit;
      unit.row_begin = row;
      unit.row_end = std::min(row + kBand, info_.row_domain_end);
      unit.cell_bound = static_cast<uint64_t>(unit.row_end - row) * kNonzeros;
      unit.stored_bytes =
          static_cast<uint64_t>(static_cast<double>(unit.cell_bound) * kStoredBytes);
      units_.push_back(unit);
    }
  }
  const format::MatrixInfo& info() const override { return info_; }
  std::span<const plan::FetchUnit> units() const override { return units_; }
  std::shared_ptr<const format::MatrixReader> reader(std::span<const int64_t>) const override {
    return std::make_shared<Reader>(*this);
  }

 private:
  class Reader : public format::MatrixReader {
   public:
    explicit Reader(const UnreadBands& source) : source_(source) {}
    const kernel::PackedRowLayout& row_layout() const override { return layout_; }
    std::unique_ptr<format::UnitDecode> start(uint32_t, std::vector<int64_t>,
                                              std::unique_ptr<format::UnitDecode>) const override {
      return nullptr;
    }
    uint64_t in_flight_bytes(uint32_t unit) const override {
      const plan::FetchUnit& band = source_.units_[unit];  // stored, staged, and what tasks need
      return band.stored_bytes + band.cell_bound * 16 / 5 + (uint64_t{2} << 20);
    }
    double packed_bytes_per_cell() const override { return 3.05; }
    uint64_t bytes_needed(const RowSelection&) const override { return 1; }
    uint64_t visit_bytes(uint32_t, const RowSelection&) const override { return 1; }

   private:
    const UnreadBands& source_;
    kernel::PackedRowLayout layout_;
  };

  format::MatrixInfo info_;
  std::vector<plan::FetchUnit> units_;
};

/// 300 datasets of log-normal sizes over three decades, each in one stretch.
std::vector<uint32_t> datasets_of_cells() {
  std::mt19937_64 random(1);
  std::vector<double> weights(300);
  for (double& weight : weights) {
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += static_cast<double>(random() >> 11) * 0x1p-53;
    weight = std::exp(1.5 * normal);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < weights.size(); ++i) {
    labels.insert(labels.end(), static_cast<size_t>(weights[i] / sum * kCells) + 1,
                  static_cast<uint32_t>(i));
  }
  labels.resize(kCells);
  return labels;
}

double uniform_entropy(std::vector<uint32_t> labels) {
  std::mt19937_64 random(2);
  std::shuffle(labels.begin(), labels.end(), random);
  constexpr size_t kBatches = 20000;
  double sum = 0;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    std::map<uint32_t, double> shares;
    for (size_t i = 0; i < 128; ++i) shares[labels[batch * 128 + i]] += 1.0 / 128;
    for (const auto& [label, share] : shares) sum -= share * std::log2(share);
  }
  return sum / kBatches;
}

TEST(ShuffleQuality, TwoGibibytesMixTenMillionCells) {
  const auto source = std::make_shared<UnreadBands>();
  const auto labels = datasets_of_cells();
  const double uniform = uniform_entropy(labels);
  LoaderOptions options;
  options.memory_budget = 2_GiB;
  const EpochStream stream(source, options);
  const auto bits = stream.batch_entropy(labels).bits;
  ASSERT_EQ(bits.size(), (kCells + 127) / 128);
  const double mean =
      std::accumulate(bits.begin(), bits.end(), 0.0) / static_cast<double>(bits.size());
  std::printf("%.2f %% of uniform with %llu of %zu units in the shuffle\n", 100 * mean / uniform,
              static_cast<unsigned long long>(stream.stats().units_in_shuffle),
              source->units().size());
  EXPECT_GE(mean, 0.98 * uniform);
}

}  // namespace
}  // namespace penstock::pipeline
