#pragma once

#include <penstock/data_type.h>

#include <cstdint>
#include <type_traits>
#include <utility>

// From a DataType to the C++ type of its cells:
//
//   visit_number(type, [&](auto identity) {
//     using T = typename decltype(identity)::type;
//     ...
//   });
//
// The body is compiled once for each type and called once, with std::type_identity<T>{}.

namespace penstock {

/// The type with the same cells that is neither a date nor a time: int64 for those, else `type`.
constexpr DataType stored_type(DataType type) noexcept {
  const bool is_time_point = type >= DataType::kDateTimeYear && type <= DataType::kTimeAttosecond;
  return is_time_point ? DataType::kInt64 : type;
}

namespace detail {

/// `Unsupported` for values that the user has, `Internal` where `values` is null.
[[noreturn]] void refuse_type(DataType type, const char* values);

template <typename Body>
decltype(auto) visit_integer(DataType type, Body&& body, const char* values) {
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
    default:
      refuse_type(type, values);
  }
}

}  // namespace detail

/// Integers, and booleans as uint8_t. Throws `Internal` for other types.
template <typename Body>
decltype(auto) visit_integer(DataType type, Body&& body) {
  return detail::visit_integer(type, std::forward<Body>(body), nullptr);
}

/// Floating types too. Throws `Unsupported` for other types; the message names the `values`.
template <typename Body>
decltype(auto) visit_number(DataType type, Body&& body, const char* values = "values") {
  if (type == DataType::kFloat32) return body(std::type_identity<float>{});
  if (type == DataType::kFloat64) return body(std::type_identity<double>{});
  return detail::visit_integer(type, std::forward<Body>(body), values);
}

}  // namespace penstock
