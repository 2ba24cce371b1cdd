#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "format/chunked/array.h"

namespace penstock::format::hdf5 {

using chunked::StringForm;

enum class TypeClass : uint8_t {
  kInteger = 0,
  kFloat = 1,
  kTime = 2,
  kString = 3,  ///< of fixed size
  kBits = 4,
  kOpaque = 5,
  kCompound = 6,
  kReference = 7,
  kEnum = 8,
  kVariable = 9,  ///< a sequence or a string of variable length
  kArray = 10,
  kComplex = 11,
};

/// A datatype message. Source: HDF5 File Format Specification, IV.A.2.d.
struct Datatype {
  struct Member {
    std::string name;
    uint64_t offset = 0;
    std::shared_ptr<const Datatype> type;
  };

  TypeClass type_class = TypeClass::kInteger;
  uint32_t bytes = 0;
  bool big_endian = false;
  bool is_signed = false;
  bool is_string = false;                            ///< of a kVariable
  StringForm string_form = StringForm::kFixedBytes;  ///< of a kString
  bool is_object_reference = false;                  ///< of a kReference
  bool is_bool = false;         ///< of a kEnum: FALSE is 0 and TRUE is 1, in one byte, as of h5py
  std::vector<Member> members;  ///< of a kCompound
  std::vector<uint64_t> dimensions;  ///< of a kArray

  /// The number type that holds the values exactly. Throws Unsupported for types that are no
  /// numbers, or of an odd size or precision.
  DataType number() const;

  /// For people: "int32", "a compound of 3", "strings of variable length".
  std::string text() const;
};

/// Reads a datatype; `reader` is behind it afterwards. Throws CorruptData or Unsupported.
Datatype read_datatype(ByteReader& reader);

}  // namespace penstock::format::hdf5
