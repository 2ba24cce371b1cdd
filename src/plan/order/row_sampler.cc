#include "plan/order/row_sampler.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/concat.h"
#include "plan/order/portable_log.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

/// Most draws of one visit: twice its rows, or kSmallVisit if the selection has few rows in each
/// unit.
constexpr uint64_t kDrawsPerRow = 2;
constexpr uint64_t kSmallVisit = 2048;
/// Draws are made one by one, in about 10 ns each; more draws would look like a hang.
constexpr uint64_t kMostSamples = UINT32_MAX;

uint64_t row_count(std::span<const UnitRows> units) {
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  return rows;
}

/// Finds the interval of a number in constant time. Numbers are uniform, so a table with as many
/// equal steps as intervals leads to within a few of it.
class Intervals {
 public:
  /// Running sums from 0 on, the last one above 0.
  explicit Intervals(std::vector<uint64_t> sums)
      : sums_(std::move(sums)), step_(sums_.back() / (sums_.size() - 1) + 1) {
    guide_.reserve(sums_.size());
    size_t interval = 0;
    for (uint64_t at = 0; at < sums_.back(); at += step_) {
      while (sums_[interval + 1] <= at) ++interval;
      guide_.push_back(static_cast<uint32_t>(interval));
      if (step_ > sums_.back() - at) break;
    }
  }

  uint64_t total() const noexcept { return sums_.back(); }

  uint32_t find(uint64_t number) const noexcept {
    uint32_t interval = guide_[number / step_];
    while (sums_[interval + 1] <= number) ++interval;
    return interval;
  }

 private:
  std::vector<uint64_t> sums_;
  uint64_t step_;
  std::vector<uint32_t> guide_;
};

}  // namespace

RowSampler::RowSampler(std::span<const UnitRows> units, RowSampling sampling, uint64_t seed,
                       uint64_t epoch)
    : sampling_(std::move(sampling)), seed_(seed), epoch_(epoch) {
  const uint64_t rows = row_count(units);
  if (sampling_.weights && sampling_.weights.size() != rows) {
    throw InvalidArgument(concat("there must be a weight for each selected row: ",
                                 sampling_.weights.size(), " weights, ", rows, " rows"));
  }
  if (sampling_.samples > kMostSamples) {
    throw InvalidArgument(concat("an epoch draws at most ", kMostSamples,
                                 " rows, a minute's work before it begins: ", sampling_.samples));
  }
  if (sampling_.samples == 0) return;
  if (rows == 0) {
    throw InvalidArgument(concat(sampling_.samples, " rows to draw from a selection of none"));
  }
  if (sampling_.replacement) {
    draw_with_replacement(units);
  } else {
    draw_without_replacement(units);
  }
}

uint64_t RowSampler::weight_of(const UnitRows& unit) const {
  if (!sampling_.weights) return unit.row_count;
  return sampling_.weights.sum(unit.first_position, unit.first_position + unit.row_count);
}

void RowSampler::add_unit(const UnitRows& unit, uint64_t draws) {
  if (draws == 0) return;
  const uint64_t most = std::max(kSmallVisit, kDrawsPerRow * unit.row_count);
  const uint64_t visits = sampling_.replacement ? (draws + most - 1) / most : 1;
  for (uint64_t visit = 0; visit < visits; ++visit) {
    UnitRows drawn = unit;
    drawn.drawn_from = unit.row_count;
    drawn.repeat = static_cast<uint32_t>(visit);
    drawn.row_count = static_cast<uint32_t>(draws / visits + (visit < draws % visits ? 1 : 0));
    drawn.packed_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(unit.packed_bytes) *
                                               drawn.row_count / unit.row_count);
    units_.push_back(drawn);
  }
}

void RowSampler::draw_with_replacement(std::span<const UnitRows> units) {
  std::vector<uint64_t> sums = {0};
  sums.reserve(units.size() + 1);
  for (const UnitRows& unit : units) sums.push_back(sums.back() + weight_of(unit));
  const Intervals intervals(std::move(sums));
  std::vector<uint64_t> draws(units.size());
  RandomStream random(random_key(seed_, epoch_, Purpose::kUnitDraws));
  for (uint64_t i = 0; i < sampling_.samples; ++i) {
    ++draws[intervals.find(random.below(intervals.total()))];
  }
  for (size_t i = 0; i < units.size(); ++i) add_unit(units[i], draws[i]);
}

// Leaves out rows of weight 0.
template <typename Row>
void RowSampler::for_each_key(uint64_t begin, uint64_t end, Row&& row) const {
  const uint64_t key = random_key(seed_, epoch_, Purpose::kRowKeys);
  std::vector<uint64_t> weights;
  if (sampling_.weights) sampling_.weights.copy(begin, end, weights);
  for (uint64_t position = begin; position < end; ++position) {
    const uint64_t bits = hash_combine(key, position) >> 11;
    const double uniform = (static_cast<double>(bits) + 0.5) * 0x1p-53;
    if (weights.empty()) {
      row(position, uniform);  // equal weights: any function that ascends will do
    } else if (const uint64_t weight = weights[position - begin]; weight != 0) {
      row(position, -portable_log(uniform) / static_cast<double>(weight));
    }
  }
}

bool RowSampler::is_drawn(double key, uint64_t position) const noexcept {
  return key < last_key_ || (key == last_key_ && position <= last_position_);
}

// Positive doubles are in the order of their bits: a histogram of the upper ones leaves few
// candidates for the last row that is drawn, without a list of all keys.
void RowSampler::draw_without_replacement(std::span<const UnitRows> units) {
  const uint64_t rows = row_count(units);
  const uint64_t can_be = sampling_.weights ? sampling_.weights.positive_count() : rows;
  if (sampling_.samples > can_be) {
    throw InvalidArgument(
        concat(sampling_.samples, " rows cannot be drawn without replacement from ", can_be,
               (can_be < rows ? " of weight above 0" : ""), "; draw fewer, or with it"));
  }
  // The exponent, and so much of the fraction that a bin has few of the rows.
  const unsigned upper_bits = 11 + std::min(9U, static_cast<unsigned>(std::bit_width(rows)) / 3);
  const auto upper = [&](double key) { return std::bit_cast<uint64_t>(key) >> (63 - upper_bits); };
  std::vector<uint64_t> histogram(size_t{1} << upper_bits);
  for (const UnitRows& unit : units) {
    for_each_key(unit.first_position, unit.first_position + unit.row_count,
                 [&](uint64_t, double key) { ++histogram[upper(key)]; });
  }
  uint64_t before = 0;
  size_t bin = 0;
  while (before + histogram[bin] < sampling_.samples) before += histogram[bin++];

  struct Candidate {
    double key;
    uint64_t position;
  };
  std::vector<Candidate> candidates;
  candidates.reserve(histogram[bin]);
  std::vector<uint64_t> draws(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    for_each_key(units[i].first_position, units[i].first_position + units[i].row_count,
                 [&](uint64_t position, double key) {
                   if (upper(key) < bin) ++draws[i];
                   if (upper(key) == bin) candidates.push_back({key, position});
                 });
  }
  const auto in_order = [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  };
  const auto last = candidates.begin() + static_cast<ptrdiff_t>(sampling_.samples - before - 1);
  std::nth_element(candidates.begin(), last, candidates.end(), in_order);
  last_key_ = last->key;
  last_position_ = last->position;
  for (auto each = candidates.begin(); each <= last; ++each) {
    const auto unit = std::upper_bound(
        units.begin(), units.end(), each->position,
        [](uint64_t position, const UnitRows& other) { return position < other.first_position; });
    ++draws[static_cast<size_t>(unit - units.begin()) - 1];
  }
  for (size_t i = 0; i < units.size(); ++i) add_unit(units[i], draws[i]);
}

std::vector<uint32_t> RowSampler::rows(const Visit& visit) const {
  std::vector<uint32_t> rows;
  rows.reserve(visit.unit_rows);
  const uint64_t begin = visit.first_position, end = begin + visit.selected_rows;
  if (!sampling_.replacement) {
    for_each_key(begin, end, [&](uint64_t position, double row_key) {
      if (is_drawn(row_key, position)) rows.push_back(static_cast<uint32_t>(position - begin));
    });
    return rows;
  }
  const uint64_t key = hash_combine(
      hash_combine(random_key(seed_, epoch_, Purpose::kRowDraws), visit.unit), visit.repeat);
  RandomStream random(key);
  if (!sampling_.weights) {
    for (uint32_t i = 0; i < visit.unit_rows; ++i) {
      rows.push_back(static_cast<uint32_t>(random.below(visit.selected_rows)));
    }
  } else {
    std::vector<uint64_t> weights;
    sampling_.weights.copy(begin, end, weights);
    std::vector<uint64_t> sums = {0};
    sums.reserve(weights.size() + 1);
    for (const uint64_t weight : weights) sums.push_back(sums.back() + weight);
    const Intervals intervals(std::move(sums));
    for (uint32_t i = 0; i < visit.unit_rows; ++i) {
      rows.push_back(intervals.find(random.below(intervals.total())));
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace penstock::plan
