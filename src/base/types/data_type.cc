#include <penstock/data_type.h>
#include <penstock/error.h>

#include "base/concat.h"

namespace penstock {

size_t size_of(DataType type) {
  switch (type) {
    case DataType::kChar:
    case DataType::kInt8:
    case DataType::kUInt8:
    case DataType::kStringAscii:
    case DataType::kStringUtf8:
    case DataType::kAny:
    case DataType::kBlob:
    case DataType::kBool:
    case DataType::kGeomWkb:
    case DataType::kGeomWkt:
      return 1;
    case DataType::kInt16:
    case DataType::kUInt16:
    case DataType::kStringUtf16:
    case DataType::kStringUcs2:
      return 2;
    case DataType::kInt32:
    case DataType::kUInt32:
    case DataType::kFloat32:
    case DataType::kStringUtf32:
    case DataType::kStringUcs4:
      return 4;
    case DataType::kInt64:
    case DataType::kUInt64:
    case DataType::kFloat64:
      return 8;
    default:
      break;
  }
  if (is_datetime(type) || is_time(type)) return 8;
  throw CorruptData(concat("unknown data type code ", static_cast<int>(type)));
}

std::string_view name_of(DataType type) {
  static constexpr std::string_view kNames[] = {"int32",
                                                "int64",
                                                "float32",
                                                "float64",
                                                "char",
                                                "int8",
                                                "uint8",
                                                "int16",
                                                "uint16",
                                                "uint32",
                                                "uint64",
                                                "ascii",
                                                "string",
                                                "utf16",
                                                "utf32",
                                                "ucs2",
                                                "ucs4",
                                                "any",
                                                "datetime64[Y]",
                                                "datetime64[M]",
                                                "datetime64[W]",
                                                "datetime64[D]",
                                                "datetime64[h]",
                                                "datetime64[m]",
                                                "datetime64[s]",
                                                "datetime64[ms]",
                                                "datetime64[us]",
                                                "datetime64[ns]",
                                                "datetime64[ps]",
                                                "datetime64[fs]",
                                                "datetime64[as]",
                                                "time[h]",
                                                "time[m]",
                                                "time[s]",
                                                "time[ms]",
                                                "time[us]",
                                                "time[ns]",
                                                "time[ps]",
                                                "time[fs]",
                                                "time[as]",
                                                "bytes",
                                                "bool",
                                                "wkb",
                                                "wkt"};
  const auto code = static_cast<uint8_t>(type);
  return code <= kLastDataType ? kNames[code] : std::string_view("unknown");
}

bool is_integer(DataType type) noexcept {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUInt8:
    case DataType::kInt16:
    case DataType::kUInt16:
    case DataType::kInt32:
    case DataType::kUInt32:
    case DataType::kInt64:
    case DataType::kUInt64:
      return true;
    default:
      return false;
  }
}

bool is_floating(DataType type) noexcept {
  return type == DataType::kFloat32 || type == DataType::kFloat64;
}

bool is_string(DataType type) noexcept {
  return type == DataType::kChar ||
         (type >= DataType::kStringAscii && type <= DataType::kStringUcs4);
}

bool is_datetime(DataType type) noexcept {
  return type >= DataType::kDateTimeYear && type <= DataType::kDateTimeAttosecond;
}

bool is_time(DataType type) noexcept {
  return type >= DataType::kTimeHour && type <= DataType::kTimeAttosecond;
}

}  // namespace penstock
