#include <penstock/error.h>
#include <penstock/row_sampling.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <variant>

#include "base/concat.h"
#include "base/hash/hash64.h"

namespace penstock {
namespace {

constexpr uint64_t kBlockRows = 4096;
constexpr int kTotalBits = 62;

// A weight without a table is 26 bits shifted by up to 63: exact to 2^-27.
constexpr unsigned kMantissaBits = 26;
constexpr uint32_t kMantissa = (uint32_t{1} << kMantissaBits) - 1;

uint32_t to_code(uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  if (width <= kMantissaBits) return static_cast<uint32_t>(value);
  unsigned shift = width - kMantissaBits;
  uint64_t mantissa = (value + (uint64_t{1} << (shift - 1))) >> shift;
  if (mantissa > kMantissa) {
    mantissa >>= 1;
    ++shift;
  }
  return static_cast<uint32_t>(mantissa) | shift << kMantissaBits;
}

uint64_t from_code(uint32_t code) { return uint64_t{code & kMantissa} << (code >> kMantissaBits); }

void check_weight(double weight, const char* what, uint64_t index) {
  if (weight >= 0 && std::isfinite(weight)) return;
  throw InvalidArgument(
      concat("a weight must be a number, 0 or more: ", what, " ", index, " has ", weight));
}

/// Converts weights, relative to the largest so that nothing overflows, to integers.
class Scale {
 public:
  Scale(double largest, double sum_of_shares)
      : largest_(largest), factor_(std::ldexp(1.0, kTotalBits) / sum_of_shares) {}

  uint64_t operator()(double weight) const {
    if (weight == 0) return 0;
    return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(weight / largest_ * factor_)));
  }

 private:
  double largest_;
  double factor_;
};

[[noreturn]] void no_weight(uint64_t rows) {
  throw InvalidArgument(rows == 0
                            ? std::string("there are no rows to weigh")
                            : "all " + std::to_string(rows) + " weights are 0, nothing is drawn");
}

}  // namespace

/// Up to 65,536 classes have a table and narrow codes. Otherwise each code is the weight itself.
struct RowWeights::Kept {
  uint64_t size = 0;
  uint64_t positive_count = 0;
  uint64_t fingerprint = 0;
  std::variant<std::vector<uint8_t>, std::vector<uint16_t>, std::vector<uint32_t>> codes;
  std::vector<uint64_t> table;       ///< weight of a code, or empty
  std::vector<uint64_t> block_sums;  ///< of all rows before a block

  template <typename Visit>
  void for_each(uint64_t begin, uint64_t end, Visit&& visit) const {
    std::visit(
        [&](const auto& all) {
          if (table.empty()) {
            for (uint64_t i = begin; i < end; ++i) visit(from_code(all[i]));
          } else {
            for (uint64_t i = begin; i < end; ++i) visit(table[all[i]]);
          }
        },
        codes);
  }

  // Sums, and a hash that does not depend on how the weights are kept.
  void finish() {
    block_sums = {0};
    fingerprint = hash_combine(size, 1);
    for (uint64_t begin = 0; begin < size; begin += kBlockRows) {
      uint64_t total = block_sums.back();
      for_each(begin, std::min(begin + kBlockRows, size), [&](uint64_t weight) {
        total += weight;
        positive_count += weight != 0;
        fingerprint = hash_combine(fingerprint, weight);
      });
      block_sums.push_back(total);
    }
  }
};

RowWeights RowWeights::from_values(std::span<const double> weights) {
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    check_weight(weights[i], "row", i);
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) no_weight(weights.size());
  double sum = 0;
  for (const double weight : weights) sum += weight / largest;
  const Scale scale(largest, sum);
  auto kept = std::make_shared<Kept>();
  kept->size = weights.size();
  auto& codes = kept->codes.emplace<std::vector<uint32_t>>();
  codes.reserve(weights.size());
  for (const double weight : weights) codes.push_back(to_code(scale(weight)));
  kept->finish();
  return RowWeights(std::move(kept));
}

RowWeights RowWeights::from_classes(std::span<const int32_t> codes,
                                    std::span<const double> class_weights) {
  std::vector<uint64_t> counts(class_weights.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] < 0 || static_cast<size_t>(codes[i]) >= counts.size()) {
      throw InvalidArgument(
          concat("row ", i, " has class ", codes[i], ", there are ", counts.size()));
    }
    ++counts[static_cast<size_t>(codes[i])];
  }
  double largest = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    check_weight(class_weights[i], "class", i);
    if (counts[i] != 0) largest = std::max(largest, class_weights[i]);
  }
  if (largest == 0) no_weight(codes.size());
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += static_cast<double>(counts[i]) * (class_weights[i] / largest);
  }
  const Scale scale(largest, sum);
  auto kept = std::make_shared<Kept>();
  kept->size = codes.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    kept->table.push_back(counts[i] == 0 ? 0 : scale(class_weights[i]));
  }
  if (counts.size() <= 256) {
    kept->codes = std::vector<uint8_t>(codes.begin(), codes.end());
  } else if (counts.size() <= 65536) {
    kept->codes = std::vector<uint16_t>(codes.begin(), codes.end());
  } else {
    kept->codes = std::vector<uint32_t>(codes.begin(), codes.end());
  }
  kept->finish();
  return RowWeights(std::move(kept));
}

uint64_t RowWeights::size() const noexcept { return kept_->size; }
uint64_t RowWeights::positive_count() const noexcept { return kept_->positive_count; }
uint64_t RowWeights::total() const noexcept { return kept_->block_sums.back(); }
uint64_t RowWeights::fingerprint() const noexcept { return kept_->fingerprint; }

uint64_t RowWeights::sum(uint64_t begin, uint64_t end) const {
  const auto before = [this](uint64_t row) {
    const uint64_t block = row / kBlockRows;
    uint64_t total = kept_->block_sums[block];
    kept_->for_each(block * kBlockRows, row, [&](uint64_t weight) { total += weight; });
    return total;
  };
  return before(end) - before(begin);
}

void RowWeights::copy(uint64_t begin, uint64_t end, std::vector<uint64_t>& out) const {
  out.clear();
  out.reserve(end - begin);
  kept_->for_each(begin, end, [&](uint64_t weight) { out.push_back(weight); });
}

size_t RowWeights::memory_bytes() const noexcept {
  const size_t codes =
      std::visit([](const auto& all) { return all.size() * sizeof(all[0]); }, kept_->codes);
  return codes + (kept_->table.size() + kept_->block_sums.size()) * sizeof(uint64_t);
}

uint64_t RowSampling::fingerprint() const noexcept {
  const uint64_t hash = hash_combine(samples, replacement ? 1 : 0);
  return hash_combine(hash, weights ? weights.fingerprint() : 0);
}

}  // namespace penstock
