#pragma once

#include <penstock/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// Arithmetic on sizes that come from a store: overflow is `CorruptData`, never a wrap.

namespace penstock {

template <typename T>
T checked_add(T a, T b, std::string_view what) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) {
    throw CorruptData(std::string(what) + " overflows: " + std::to_string(a) + " + " +
                      std::to_string(b));
  }
  return result;
}

template <typename T>
T checked_mul(T a, T b, std::string_view what) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw CorruptData(std::string(what) + " overflows: " + std::to_string(a) + " * " +
                      std::to_string(b));
  }
  return result;
}

/// Narrows an integer from a store; a value that does not fit is `CorruptData`.
template <typename To, typename From>
To checked_cast(From value, std::string_view what) {
  if (!std::in_range<To>(value)) {
    throw CorruptData(std::string(what) + " is out of range: " + std::to_string(value));
  }
  return static_cast<To>(value);
}

}  // namespace penstock
