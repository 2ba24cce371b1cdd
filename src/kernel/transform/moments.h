#pragma once

#include <cmath>
#include <cstdint>

// Sums for an exact or nearly exact mean and variance. Integers are summed in 64 bits, other values
// by Welford's update. Parts are merged by Chan's formula (Chan, Golub, LeVeque, "Updating formulae
// and a pairwise algorithm for computing sample variances", 1979).

namespace penstock::kernel {

/// Sums of integers; exact for all values that add() accepts.
struct IntegerSums {
  int64_t count = 0;  ///< values that are not 0
  int64_t sum = 0;
  int64_t squares = 0;

  /// False for a value that is not an integer or would overflow; nothing is added then.
  bool add(double value) noexcept {
    constexpr double kLargest = 2147483648.0;  // its square fits
    if (!(value > -kLargest && value < kLargest)) return false;
    const auto integer = static_cast<int64_t>(value);
    if (static_cast<double>(integer) != value) return false;
    int64_t new_sum, new_squares;
    if (__builtin_add_overflow(sum, integer, &new_sum) ||
        __builtin_add_overflow(squares, integer * integer, &new_squares)) {
      return false;
    }
    sum = new_sum;
    squares = new_squares;
    count += integer != 0;
    return true;
  }
};

/// Mean and sum of squared deviations of any values.
struct RunningMoments {
  int64_t count = 0;
  double mean = 0;
  double squared_deviation = 0;

  void add(double value) noexcept {
    ++count;
    const double difference = value - mean;
    mean += difference / static_cast<double>(count);
    squared_deviation += difference * (value - mean);
  }
  void merge(const RunningMoments& other) noexcept {
    if (other.count == 0) return;
    const auto here = static_cast<double>(count), there = static_cast<double>(other.count);
    const double difference = other.mean - mean;
    const double all = here + there;
    mean += difference * (there / all);
    squared_deviation += other.squared_deviation + difference * difference * (here * there / all);
    count += other.count;
  }
};

/// `count` equal values.
inline RunningMoments constant_moments(int64_t count, double value) noexcept {
  return {count, value, 0};
}

/// Moments of `count` values with these sums; values that are not in `sums` are zeros.
inline RunningMoments moments_of(const IntegerSums& sums, int64_t count) noexcept {
  if (count == 0) return {};
  __extension__ using Wide = __int128;
  const Wide scaled = Wide{count} * sums.squares - Wide{sums.sum} * sums.sum;
  const auto n = static_cast<double>(count);
  return {count, static_cast<double>(sums.sum) / n, static_cast<double>(scaled) / n};
}

}  // namespace penstock::kernel
