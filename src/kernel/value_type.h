#pragma once

#include <penstock/data_type.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/types/visit_type.h"

// The number types of stored values and batches, and the conversion between them: a value must fit
// an integer type exactly, but is rounded to a floating type.

namespace penstock::kernel {

/// False if the integer type To cannot represent `from` exactly; `to` is then unchanged.
template <typename To, typename From>
bool convert_value(From from, To& to) noexcept {
  if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(from);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    // 2^digits is exact in float and double, so both comparisons are too; NaN fails them.
    constexpr auto kEnd = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) *
                          static_cast<From>(2);
    constexpr From kBegin = std::is_signed_v<To> ? -kEnd : From{0};
    if (!(from >= kBegin && from < kEnd) || std::trunc(from) != from) return false;
    to = static_cast<To>(from);
    return true;
  } else {
    if (!std::in_range<To>(from)) return false;
    to = static_cast<To>(from);
    return true;
  }
}

/// Values in packed rows are unaligned.
template <typename T>
T load_unaligned(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace penstock::kernel
