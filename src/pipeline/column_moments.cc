#include "pipeline/column_moments.h"

#include <algorithm>
#include <utility>

namespace penstock::pipeline {
namespace {

/// Small enough for the second-level cache, and for ranges for many threads.
constexpr uint32_t kRangeColumns = 4096;

}  // namespace

ColumnMoments::ColumnMoments(uint32_t columns, uint32_t group_count, std::vector<double> upper)
    : columns_(columns),
      group_count_(group_count),
      upper_(std::move(upper)),
      integers_(size_t{columns} * group_count),
      clipped_(upper_.empty() ? 0 : size_t{columns} * group_count) {
  for (uint32_t begin = 0; begin < columns; begin += kRangeColumns) {
    Range& range = ranges_.emplace_back();
    range.begin = begin;
    range.end = std::min(columns, begin + kRangeColumns);
    range.fractions.resize(group_count);
  }
}

void ColumnMoments::add(size_t range, const Batch& batch, std::span<const uint32_t> groups) {
  if (batch.dtype() == DataType::kFloat32) {
    add_values<float>(ranges_[range], batch, groups);
  } else {
    add_values<double>(ranges_[range], batch, groups);
  }
}

template <typename T>
void ColumnMoments::add_values(Range& range, const Batch& batch, std::span<const uint32_t> groups) {
  const Batch::Csr csr = batch.csr();
  const auto* const values = reinterpret_cast<const T*>(csr.data);
  const bool whole = ranges_.size() == 1;
  for (uint32_t row = 0; row < batch.rows(); ++row) {
    const int32_t* const end = csr.indices.data() + csr.indptr[row + 1];
    const int32_t* at = csr.indices.data() + csr.indptr[row];
    if (!whole) at = std::lower_bound(at, end, static_cast<int32_t>(range.begin));
    const uint32_t group = groups.empty() ? 0 : groups[row];
    const size_t first = size_t{group} * columns_;
    for (; at != end && static_cast<uint32_t>(*at) < range.end; ++at) {
      const auto column = static_cast<uint32_t>(*at);
      const auto value = static_cast<double>(values[at - csr.indices.data()]);
      if (!upper_.empty() && value > upper_[first + column]) {
        ++clipped_[first + column];
      } else if (!integers_[first + column].add(value)) {
        add_fraction(range, group, column, value);
      }
    }
  }
}

void ColumnMoments::add_fraction(Range& range, uint32_t group, uint32_t column, double value) {
  auto& fractions = range.fractions[group];
  if (fractions == nullptr) {
    fractions = std::make_unique<kernel::RunningMoments[]>(range.end - range.begin);
  }
  fractions[column - range.begin].add(value);
}

Moments ColumnMoments::moments(std::span<const uint64_t> group_sizes) const {
  Moments result;
  const size_t size = integers_.size();
  result.nonzeros.reserve(size);
  result.total.reserve(size);
  result.squared_deviation.reserve(size);
  for (uint32_t group = 0; group < group_count_; ++group) {
    for (const Range& range : ranges_) {
      for (uint32_t column = range.begin; column < range.end; ++column) {
        const size_t i = size_t{group} * columns_ + column;
        kernel::RunningMoments fractions;
        if (range.fractions[group] != nullptr) {
          fractions = range.fractions[group][column - range.begin];
        }
        const int64_t clipped = clipped_.empty() ? 0 : clipped_[i];
        const double upper = clipped == 0 ? 0 : upper_[i];
        const auto rows = static_cast<int64_t>(group_sizes[group]);
        auto all = kernel::moments_of(integers_[i], rows - clipped - fractions.count);
        all.merge(fractions);
        all.merge(kernel::constant_moments(clipped, upper));
        result.nonzeros.push_back(integers_[i].count + (upper != 0 ? clipped : 0) +
                                  fractions.count);
        result.total.push_back(static_cast<double>(integers_[i].sum) +
                               fractions.mean * static_cast<double>(fractions.count) +
                               upper * static_cast<double>(clipped));
        result.squared_deviation.push_back(all.squared_deviation);
      }
    }
  }
  return result;
}

}  // namespace penstock::pipeline
