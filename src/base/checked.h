#pragma once

#include <penstock/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/concat.h"

// Arithmetic on sizes from a store: overflow throws `CorruptData`.

namespace penstock {

template <typename T>
T checked_add(T a, T b, std::string_view what) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) {
    throw CorruptData(concat(what, " overflows: ", a, " + ", b));
  }
  return result;
}

template <typename T>
T checked_mul(T a, T b, std::string_view what) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw CorruptData(concat(what, " overflows: ", a, " * ", b));
  }
  return result;
}

/// Narrows an integer from a store. Throws `CorruptData` if the value does not fit.
template <typename To, typename From>
To checked_cast(From value, std::string_view what) {
  if (!std::in_range<To>(value)) {
    throw CorruptData(concat(what, " is out of range: ", value));
  }
  return static_cast<To>(value);
}

}  // namespace penstock
