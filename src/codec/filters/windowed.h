#pragma once

#include <penstock/data_type.h>

#include <cstdint>

// What bit width reduction and positive delta share: they work on windows of integers, each with
// metadata of its own, and let types that they cannot work on through untouched.

namespace penstock::codec {

/// Calls `body(T{})` with the integer type that a windowed filter takes for cells of `type`, or
/// returns false where it lets the data through. Dates and times were let through before format 20.
template <typename Body>
bool with_window_type(DataType type, uint32_t format_version, Body&& body) {
  switch (type) {
    case DataType::kInt16:
      body(int16_t{});
      return true;
    case DataType::kUInt16:
      body(uint16_t{});
      return true;
    case DataType::kInt32:
      body(int32_t{});
      return true;
    case DataType::kUInt32:
      body(uint32_t{});
      return true;
    case DataType::kInt64:
      body(int64_t{});
      return true;
    case DataType::kUInt64:
      body(uint64_t{});
      return true;
    default:
      if ((is_datetime(type) || is_time(type)) && format_version >= 20) {
        body(int64_t{});
        return true;
      }
      return false;
  }
}

}  // namespace penstock::codec
