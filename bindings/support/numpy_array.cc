#include "support/numpy_array.h"

#include <penstock/error.h>

#include <string>

namespace penstock::python {

nanobind::dlpack::dtype dlpack_dtype(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return nanobind::dtype<int8_t>();
    case DataType::kUInt8:
    case DataType::kBool:  // stored as bytes; Python views them as bool
      return nanobind::dtype<uint8_t>();
    case DataType::kInt16:
      return nanobind::dtype<int16_t>();
    case DataType::kUInt16:
      return nanobind::dtype<uint16_t>();
    case DataType::kInt32:
      return nanobind::dtype<int32_t>();
    case DataType::kUInt32:
      return nanobind::dtype<uint32_t>();
    case DataType::kInt64:
      return nanobind::dtype<int64_t>();
    case DataType::kUInt64:
      return nanobind::dtype<uint64_t>();
    case DataType::kFloat32:
      return nanobind::dtype<float>();
    case DataType::kFloat64:
      return nanobind::dtype<double>();
    default:
      if (is_datetime(type) || is_time(type)) return nanobind::dtype<int64_t>();
      throw Unsupported("values of this type have no numpy array, type " +
                        std::string(name_of(type)));
  }
}

}  // namespace penstock::python
