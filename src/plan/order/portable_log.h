#pragma once

#include <bit>
#include <cstdint>

// The natural logarithm of a normal number in (0, 1], from additions, multiplications and one
// division. It has the same bits on every machine; the standard library's may differ in the last
// bit. For that reason the library is compiled without contraction into fused operations
// (CMakeLists.txt).
//
// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.172, by its power series to s^19: the rest is below 2^-53 of it.

namespace penstock::plan {

inline double portable_log(double x) noexcept {
  constexpr double kLog2 = 0x1.62e42fefa39efp-1;
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kFraction) | (uint64_t{1023} << 52));
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 1.0 / 19;
  for (int power = 17; power >= 1; power -= 2) series = series * square + 1.0 / power;
  return exponent * kLog2 + 2 * s * series;
}

}  // namespace penstock::plan
