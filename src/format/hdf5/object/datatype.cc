#include "format/hdf5/object/datatype.h"

#include <penstock/error.h>

#include <map>
#include <utility>

#include "base/concat.h"
#include "base/utf8.h"
#include "format/hdf5/file.h"

namespace penstock::format::hdf5 {
namespace {

/// Compounds within compounds within arrays; real ones have two levels.
constexpr int kMostLevels = 8;

/// A text that ends with a zero byte, before version 3 padded to a multiple of 8.
std::string read_padded_name(ByteReader& reader, unsigned version) {
  std::string name;
  for (;;) {
    const auto letter = reader.read<char>("name of a member");
    if (letter == '\0') break;
    name.push_back(letter);
  }
  if (!is_utf8(name)) throw CorruptData("the name of a member is not UTF-8");
  const size_t stored = name.size() + 1;
  if (version < 3) reader.skip((stored + 7) / 8 * 8 - stored, "name of a member");
  return name;
}

Datatype read_type(ByteReader& reader, int level);

void read_compound(ByteReader& reader, unsigned version, unsigned count, int level,
                   Datatype& type) {
  unsigned offset_bytes = 4;
  if (version >= 3) {
    offset_bytes = 1;
    while (offset_bytes < 4 && (type.bytes >> (8 * offset_bytes)) != 0) ++offset_bytes;
  }
  reader.expect_items(count, 2, "members of a compound");
  for (unsigned i = 0; i < count; ++i) {
    Datatype::Member member;
    member.name = read_padded_name(reader, version);
    member.offset = read_number(reader, offset_bytes, "offset of a member");
    if (version == 1) {
      const auto rank = reader.read<uint8_t>("dimensions of a member");
      reader.skip(3 + 4 + 4 + 16, "dimensions of a member");
      if (rank != 0) throw Unsupported("a compound whose members are arrays is not read");
    }
    member.type = std::make_shared<const Datatype>(read_type(reader, level + 1));
    if (member.offset > type.bytes || member.type->bytes > type.bytes - member.offset) {
      throw CorruptData(
          concat("member ", i, " of a compound lies outside of its ", type.bytes, " bytes"));
    }
    type.members.push_back(std::move(member));
  }
}

void read_enum(ByteReader& reader, unsigned version, unsigned count, int level, Datatype& type) {
  const Datatype base = read_type(reader, level + 1);
  if (base.type_class != TypeClass::kInteger) {
    throw Unsupported("an enumeration of other values than integers is not read");
  }
  if (base.bytes != type.bytes) {
    throw CorruptData(
        concat("an enumeration of ", type.bytes, " bytes of integers of ", base.bytes));
  }
  type.is_signed = base.is_signed;
  type.big_endian = base.big_endian;
  reader.expect_items(count, 1 + uint64_t{base.bytes}, "members of an enumeration");
  std::vector<std::string> names;
  for (unsigned i = 0; i < count; ++i) names.push_back(read_padded_name(reader, version));
  std::vector<uint64_t> values;
  for (unsigned i = 0; i < count; ++i) {
    values.push_back(read_number(reader, base.bytes, "value of an enumeration"));
  }
  std::map<std::string, uint64_t> value_of;
  for (unsigned i = 0; i < count; ++i) value_of.emplace(names[i], values[i]);
  type.is_bool = base.bytes == 1 && count == 2 &&
                 value_of == std::map<std::string, uint64_t>{{"FALSE", 0}, {"TRUE", 1}};
}

StringForm string_form_of(uint64_t padding) {
  constexpr uint64_t kTerminated = 0, kZeros = 1, kSpaces = 2;
  switch (padding) {
    case kTerminated:
      return StringForm::kFixedTerminated;
    case kZeros:
      return StringForm::kFixedBytes;
    case kSpaces:
      return StringForm::kFixedSpaces;
    default:
      throw CorruptData(
          concat("strings have the padding ", padding, ", but there are only 0 to 2"));
  }
}

Datatype read_type(ByteReader& reader, int level) {
  if (level > kMostLevels) throw Unsupported("a datatype of so many levels is not read");
  const auto head = reader.read<uint8_t>("class of a datatype");
  const unsigned version = head >> 4;
  if (version < 1 || version > 5) {
    throw Unsupported(concat("a datatype of version ", version, " is not read, only 1 to 5"));
  }
  Datatype type;
  type.type_class = static_cast<TypeClass>(head & 0x0F);
  const uint64_t bits = read_number(reader, 3, "bits of a datatype");
  type.bytes = reader.read<uint32_t>("size of a datatype");
  type.big_endian = (bits & 0x01) != 0;
  const auto count = static_cast<unsigned>(bits & 0xFFFF);
  switch (type.type_class) {
    case TypeClass::kInteger: {
      type.is_signed = (bits & 0x08) != 0;
      const auto offset = reader.read<uint16_t>("bit offset");
      const auto precision = reader.read<uint16_t>("precision");
      if (offset != 0 || precision != 8 * uint64_t{type.bytes}) {
        throw Unsupported(
            concat("integers of ", precision, " bits in ", type.bytes, " bytes are not read"));
      }
      break;
    }
    case TypeClass::kFloat: {
      if ((bits & 0x40) != 0) throw Unsupported("floats of VAX computers are not read");
      const auto properties = reader.take(12, "properties of a float");
      // Exponent and mantissa of IEEE 754's binary16, binary32 and binary64.
      const auto exponent = std::to_integer<unsigned>(properties[5]);
      const auto mantissa = std::to_integer<unsigned>(properties[7]);
      const bool known = (type.bytes == 2 && exponent == 5 && mantissa == 10) ||
                         (type.bytes == 4 && exponent == 8 && mantissa == 23) ||
                         (type.bytes == 8 && exponent == 11 && mantissa == 52);
      if (!known) {
        throw Unsupported(concat("floats of ", type.bytes, " bytes with ", exponent,
                                 " bits of exponent are not read"));
      }
      break;
    }
    case TypeClass::kTime:
      reader.skip(2, "properties of a time");
      break;
    case TypeClass::kString:
      type.string_form = string_form_of(bits & 0x0F);
      break;
    case TypeClass::kBits:
      reader.skip(4, "properties of bits");
      break;
    case TypeClass::kOpaque:
      reader.skip(bits & 0xFF, "tag of an opaque type");
      break;
    case TypeClass::kCompound:
      read_compound(reader, version, count, level, type);
      break;
    case TypeClass::kReference:
      type.is_object_reference = (bits & 0x0F) == 0;
      break;
    case TypeClass::kEnum:
      read_enum(reader, version, count, level, type);
      break;
    case TypeClass::kVariable:
      type.is_string = (bits & 0x0F) == 1;
      read_type(reader, level + 1);
      break;
    case TypeClass::kArray: {
      const auto rank = reader.read<uint8_t>("dimensions of an array");
      if (version < 3) reader.skip(3, "dimensions of an array");
      for (unsigned i = 0; i < rank; ++i) {
        type.dimensions.push_back(reader.read<uint32_t>("dimensions of an array"));
      }
      if (version < 3) reader.skip(uint64_t{4} * rank, "permutation of an array");
      type.members.push_back(
          {"", 0, std::make_shared<const Datatype>(read_type(reader, level + 1))});
      break;
    }
    case TypeClass::kComplex:
      read_type(reader, level + 1);
      break;
    default:
      throw Unsupported(concat("datatypes of class ", unsigned(head & 0x0F), " are not read"));
  }
  if (type.bytes == 0) throw CorruptData("a datatype of 0 bytes");
  return type;
}

}  // namespace

Datatype read_datatype(ByteReader& reader) { return read_type(reader, 0); }

DataType Datatype::number() const {
  if (is_bool) return DataType::kBool;
  if (type_class == TypeClass::kFloat && bytes == 4) return DataType::kFloat32;
  if (type_class == TypeClass::kFloat && bytes == 8) return DataType::kFloat64;
  if (type_class == TypeClass::kInteger || type_class == TypeClass::kEnum) {
    switch (bytes) {
      case 1:
        return is_signed ? DataType::kInt8 : DataType::kUInt8;
      case 2:
        return is_signed ? DataType::kInt16 : DataType::kUInt16;
      case 4:
        return is_signed ? DataType::kInt32 : DataType::kUInt32;
      case 8:
        return is_signed ? DataType::kInt64 : DataType::kUInt64;
      default:
        break;
    }
  }
  throw Unsupported(text() +
                    " are not read; convert them to integers, float32 or float64 and write " +
                    "the file again");
}

std::string Datatype::text() const {
  switch (type_class) {
    case TypeClass::kInteger:
      return concat("integers of ", bytes, " bytes");
    case TypeClass::kFloat:
      return concat("floats of ", bytes, " bytes");
    case TypeClass::kTime:
      return "times";
    case TypeClass::kString:
      return concat("strings of ", bytes, " bytes");
    case TypeClass::kBits:
      return "bit fields";
    case TypeClass::kOpaque:
      return "opaque bytes";
    case TypeClass::kCompound:
      return concat("compounds of ", members.size(), " members");
    case TypeClass::kReference:
      return "references";
    case TypeClass::kEnum:
      return "enumerations";
    case TypeClass::kVariable:
      return is_string ? "strings of variable length" : "sequences of variable length";
    case TypeClass::kArray:
      return "arrays in each cell";
    case TypeClass::kComplex:
      return "complex numbers";
  }
  return "unknown types";
}

}  // namespace penstock::format::hdf5
