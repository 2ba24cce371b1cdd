#include "format/zarr/metadata/cell_type.h"

#include <penstock/error.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayInfo;
using chunked::StringForm;
using nlohmann::json;

[[noreturn]] void throw_unknown(const json& type) {
  throw Unsupported("data type " + shown(type) +
                    " is not read; convert it to integers, float32, float64 or texts and write it "
                    "again with anndata");
}

struct NamedType {
  std::string_view v2;  ///< without the byte order
  std::string_view v3;
  DataType type;
};

constexpr NamedType kTypes[] = {
    {"b1", "bool", DataType::kBool},       {"i1", "int8", DataType::kInt8},
    {"i2", "int16", DataType::kInt16},     {"i4", "int32", DataType::kInt32},
    {"i8", "int64", DataType::kInt64},     {"u1", "uint8", DataType::kUInt8},
    {"u2", "uint16", DataType::kUInt16},   {"u4", "uint32", DataType::kUInt32},
    {"u8", "uint64", DataType::kUInt64},   {"f4", "float32", DataType::kFloat32},
    {"f8", "float64", DataType::kFloat64},
};

void set_number(ArrayInfo& info, DataType type) {
  info.type = type;
  info.cell_bytes = static_cast<uint32_t>(size_of(type));
  info.strings = StringForm::kNone;
}

void set_strings(ArrayInfo& info, StringForm form, uint32_t cell_bytes) {
  info.type = form == StringForm::kFixedBytes ? DataType::kStringAscii : DataType::kStringUtf8;
  info.cell_bytes = cell_bytes;
  info.strings = form;
}

/// The number after the kind in "S5"; none if there is no whole number from 1 on.
std::optional<uint32_t> count_in(std::string_view digits) {
  uint32_t count = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, count);
  if (error != std::errc() || rest != end || count == 0) return std::nullopt;
  return count;
}

/// Records: a list of names and types. Fields that are arrays or records are not read.
void set_record(ArrayInfo& info, const json& dtype) {
  uint32_t offset = 0;
  for (const json& each : dtype) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_string()) {
      throw_unknown(dtype);
    }
    ArrayInfo cell;
    set_v2_type(cell, each[1]);
    if (cell.cell_bytes == 0 || cell.cell_bytes > kMostCellBytes - offset) throw_unknown(dtype);
    info.fields.push_back({each[0].get<std::string>(), cell.type, cell.strings, cell.big_endian,
                           offset, cell.cell_bytes});
    offset += cell.cell_bytes;
  }
  if (offset == 0) throw_unknown(dtype);
  info.type = DataType::kBlob;
  info.cell_bytes = offset;
}

}  // namespace

void set_v2_type(ArrayInfo& info, const json& dtype) {
  if (dtype.is_array()) return set_record(info, dtype);
  if (!dtype.is_string()) throw_unknown(dtype);
  const auto text = dtype.get<std::string>();
  if (text.size() < 2 || std::string_view("<>|").find(text[0]) == std::string_view::npos) {
    throw_unknown(dtype);
  }
  info.big_endian = text[0] == '>';
  const std::string_view name = std::string_view(text).substr(1);
  for (const NamedType& known : kTypes) {
    if (known.v2 == name) return set_number(info, known.type);
  }
  if (name == "O") return set_strings(info, StringForm::kVlenUtf8, 0);
  const auto count = count_in(name.substr(1));
  if (!count || *count > kMostCellBytes / 4) throw_unknown(dtype);
  switch (name[0]) {
    case 'S':
      return set_strings(info, StringForm::kFixedBytes, *count);
    case 'U':
      return set_strings(info, StringForm::kFixedUtf32, 4 * *count);
    default:
      throw_unknown(dtype);
  }
}

void set_v3_type(ArrayInfo& info, const json& data_type) {
  const bool plain = data_type.is_string();
  if (!plain && !data_type.is_object()) {
    throw CorruptData("data_type must be text or an object, but is " + shown(data_type));
  }
  const auto name = plain ? data_type.get<std::string>() : text_field(data_type, "name");
  for (const NamedType& known : kTypes) {
    if (known.v3 == name) return set_number(info, known.type);
  }
  if (name == "string") return set_strings(info, StringForm::kVlenUtf8, 0);
  const bool utf32 = name == "fixed_length_utf32";
  if (plain || (!utf32 && name != "null_terminated_bytes")) throw_unknown(data_type);
  const json& configuration = field(data_type, "configuration");
  const uint32_t bytes =
      small_number(field(configuration, "length_bytes"), kMostCellBytes, "length_bytes of " + name);
  if (utf32 && bytes % 4 != 0) {
    throw CorruptData("length_bytes of fixed_length_utf32 must be a multiple of 4, but is " +
                      std::to_string(bytes));
  }
  set_strings(info, utf32 ? StringForm::kFixedUtf32 : StringForm::kFixedBytes, bytes);
}

}  // namespace penstock::format::zarr
