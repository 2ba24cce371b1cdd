#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Moments by definition, in two passes of long doubles, to compare the streamed ones with.

namespace penstock::pipeline::testing {

struct ExactMoments {
  int64_t nonzeros = 0;
  long double total = 0, squared_deviation = 0;
  bool integers = true;  ///< all below 2^31, so that sums and variances are exact
};

inline ExactMoments exact_moments(const std::vector<double>& values) {
  ExactMoments result;
  for (const double value : values) {
    result.nonzeros += value != 0;
    result.total += static_cast<long double>(value);
    result.integers =
        result.integers && std::abs(value) < 2147483648.0 && value == std::trunc(value);
  }
  if (values.empty()) return result;
  const long double mean = result.total / static_cast<long double>(values.size());
  for (const double value : values) {
    const long double difference = static_cast<long double>(value) - mean;
    result.squared_deviation += difference * difference;
  }
  return result;
}

/// For integers, equal to a few units in the last place; otherwise to a relative 1e-12 of the sum.
inline bool near(double found, long double expected, bool is_exact, long double scale) {
  const auto error = std::abs(static_cast<long double>(found) - expected);
  const long double allowed = is_exact ? 4e-16L * std::abs(expected) : 1e-12L * scale;
  return error <= allowed;
}

}  // namespace penstock::pipeline::testing
