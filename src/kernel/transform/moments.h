#pragma once

#include <cmath>
#include <cstdint>

// Sums for an exact or nearly exact mean and variance. Integers are summed exactly, other values by
// Welford's update. Parts are merged by Chan's formula (Chan, Golub, LeVeque, "Updating formulae
// and a pairwise algorithm for computing sample variances", 1979).

namespace penstock::kernel {

__extension__ using Int128 = __int128;

/// Sums of integers; exact for all values that add() accepts, which are the same in any order for
/// up to 2^32 values.
struct IntegerSums {
  int64_t count = 0;  ///< values that are not 0
  int64_t sum = 0;
  Int128 squares = 0;

  /// False for a value that is not an integer or would overflow; nothing is added then.
  bool add(double value) noexcept {
    constexpr double kLargest = 2147483648.0;  // its square fits
    if (!(value > -kLargest && value < kLargest)) return false;
    const auto integer = static_cast<int64_t>(value);
    if (static_cast<double>(integer) != value) return false;
    int64_t new_sum;
    if (__builtin_add_overflow(sum, integer, &new_sum)) return false;
    sum = new_sum;
    squares += integer * integer;
    count += integer != 0;
    return true;
  }
  void merge(const IntegerSums& other) noexcept {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
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
    if (count == 0) {
      *this = other;
      return;
    }
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
  const Int128 scaled = Int128{count} * sums.squares - Int128{sums.sum} * sums.sum;
  const auto n = static_cast<double>(count);
  return {count, static_cast<double>(sums.sum) / n, static_cast<double>(scaled) / n};
}

}  // namespace penstock::kernel
