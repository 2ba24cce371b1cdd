#pragma once

#include <penstock/data_type.h>
#include <penstock/error.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

// The number types that a matrix can have, stored or handed out, and the one rule of conversion
// between them: into an integer type a value must fit exactly, into a floating type it is rounded.

namespace penstock::kernel {

/// Calls `body(std::type_identity<T>{})` for the C++ type of `type`; booleans are uint8_t.
/// Throws Unsupported for types that are not numbers.
template <typename Body>
decltype(auto) with_value_type(DataType type, Body&& body) {
  switch (type) {
    case DataType::kInt8:
      return body(std::type_identity<int8_t>{});
    case DataType::kInt16:
      return body(std::type_identity<int16_t>{});
    case DataType::kInt32:
      return body(std::type_identity<int32_t>{});
    case DataType::kInt64:
      return body(std::type_identity<int64_t>{});
    case DataType::kUInt8:
    case DataType::kBool:
      return body(std::type_identity<uint8_t>{});
    case DataType::kUInt16:
      return body(std::type_identity<uint16_t>{});
    case DataType::kUInt32:
      return body(std::type_identity<uint32_t>{});
    case DataType::kUInt64:
      return body(std::type_identity<uint64_t>{});
    case DataType::kFloat32:
      return body(std::type_identity<float>{});
    case DataType::kFloat64:
      return body(std::type_identity<double>{});
    default:
      throw Unsupported("values of type " + std::string(name_of(type)) + " are not numbers");
  }
}

/// False, and `to` unchanged, when `from` is not exactly representable in the integer type To.
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

/// Values stand unaligned in packed rows.
template <typename T>
T load_unaligned(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace penstock::kernel
