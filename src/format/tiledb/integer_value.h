#pragma once

#include <penstock/data_type.h>
#include <penstock/error.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

// Stored coordinates of any integer, date or time type as int64. Unsigned 64-bit values keep their
// bits.

namespace penstock::format::tiledb {

template <typename T>
inline int64_t widen(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<int64_t>(value);
}

/// The value at `from`, which holds size_of(type) bytes. `Internal` for other types.
inline int64_t read_integer(DataType type, const std::byte* from) {
  switch (type) {
    case DataType::kInt8:
      return widen<int8_t>(from);
    case DataType::kUInt8:
    case DataType::kBool:
      return widen<uint8_t>(from);
    case DataType::kInt16:
      return widen<int16_t>(from);
    case DataType::kUInt16:
      return widen<uint16_t>(from);
    case DataType::kInt32:
      return widen<int32_t>(from);
    case DataType::kUInt32:
      return widen<uint32_t>(from);
    case DataType::kInt64:
    case DataType::kUInt64:
      return widen<int64_t>(from);
    default:
      break;
  }
  if (is_datetime(type) || is_time(type)) return widen<int64_t>(from);
  throw Internal("not an integer type: " + std::string(name_of(type)));
}

}  // namespace penstock::format::tiledb
