#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

/// Cell types that a stored array can have. The values are TileDB's own codes
/// (tiledb/api/c_api/datatype/datatype_api_enum.h); the format numbers are part of stored schemas.
enum class DataType : uint8_t {
  kInt32 = 0,
  kInt64 = 1,
  kFloat32 = 2,
  kFloat64 = 3,
  kChar = 4,
  kInt8 = 5,
  kUInt8 = 6,
  kInt16 = 7,
  kUInt16 = 8,
  kUInt32 = 9,
  kUInt64 = 10,
  kStringAscii = 11,
  kStringUtf8 = 12,
  kStringUtf16 = 13,
  kStringUtf32 = 14,
  kStringUcs2 = 15,
  kStringUcs4 = 16,
  kAny = 17,
  kDateTimeYear = 18,
  kDateTimeMonth = 19,
  kDateTimeWeek = 20,
  kDateTimeDay = 21,
  kDateTimeHour = 22,
  kDateTimeMinute = 23,
  kDateTimeSecond = 24,
  kDateTimeMillisecond = 25,
  kDateTimeMicrosecond = 26,
  kDateTimeNanosecond = 27,
  kDateTimePicosecond = 28,
  kDateTimeFemtosecond = 29,
  kDateTimeAttosecond = 30,
  kTimeHour = 31,
  kTimeMinute = 32,
  kTimeSecond = 33,
  kTimeMillisecond = 34,
  kTimeMicrosecond = 35,
  kTimeNanosecond = 36,
  kTimePicosecond = 37,
  kTimeFemtosecond = 38,
  kTimeAttosecond = 39,
  kBlob = 40,
  kBool = 41,
  kGeomWkb = 42,
  kGeomWkt = 43,
};

/// Number of the last valid code.
inline constexpr uint8_t kLastDataType = static_cast<uint8_t>(DataType::kGeomWkt);

/// Bytes of one element; 1 for characters, blobs and booleans. Throws `CorruptData` for a code
/// that is not a DataType.
size_t size_of(DataType type);

/// Name as numpy and arrow users write it: "float32", "int64", "datetime64[ns]", "string", …
std::string_view name_of(DataType type);

bool is_integer(DataType type) noexcept;  ///< signed or unsigned, without bool, date and time
bool is_floating(DataType type) noexcept;
bool is_string(DataType type) noexcept;    ///< char, ASCII, UTF-8, UTF-16, …
bool is_datetime(DataType type) noexcept;  ///< kDateTime*, stored as int64
bool is_time(DataType type) noexcept;      ///< kTime*, stored as int64

}  // namespace penstock
