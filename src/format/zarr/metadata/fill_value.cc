#include "format/zarr/metadata/fill_value.h"

#include <penstock/error.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "format/chunked/fixed_strings.h"
#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayInfo;
using chunked::StringForm;
using nlohmann::json;

[[noreturn]] void throw_bad(const ArrayInfo& info, const json& fill) {
  throw CorruptData("the fill value of " + std::string(name_of(info.type)) + " cells is " +
                    shown(fill));
}

/// The bits of a cell as "0x7fc00000".
std::optional<uint64_t> bits_of(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  text.remove_prefix(2);
  uint64_t bits = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return bits;
}

std::optional<double> special_number(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

template <typename T>
std::optional<T> integer_of(const json& fill) {
  if (fill.is_number_unsigned()) {
    const auto value = fill.get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (fill.is_number_integer()) {
    const auto value = fill.get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (fill.is_number_float()) {  // written as 0.0
    const auto value = fill.get<double>();
    constexpr double kEnd = 9.0e18;  // within int64
    if (std::abs(value) < kEnd && value == std::trunc(value) &&
        std::in_range<T>(static_cast<int64_t>(value))) {
      return static_cast<T>(static_cast<int64_t>(value));
    }
  } else if (fill.is_boolean()) {
    return static_cast<T>(fill.get<bool>() ? 1 : 0);
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> real_of(const json& fill) {
  std::optional<double> value;
  if (fill.is_number()) value = fill.get<double>();
  if (fill.is_string()) value = special_number(fill.get_ref<const std::string&>());
  if (!value) return std::nullopt;
  // A double beyond the largest float has no defined conversion.
  if (std::isfinite(*value) && std::abs(*value) > std::numeric_limits<T>::max()) {
    return std::nullopt;
  }
  return static_cast<T>(*value);
}

template <typename T>
void set_number(ArrayInfo& info, const json& fill) {
  std::optional<T> value;
  const auto bits =
      fill.is_string() ? bits_of(fill.get_ref<const std::string&>()) : std::optional<uint64_t>();
  if (bits && (sizeof(T) == 8 || *bits >> (8 * sizeof(T) % 64) == 0)) {
    std::memcpy(info.fill_value.data(), &*bits, sizeof(T));
    return;
  }
  if constexpr (std::is_floating_point_v<T>) {
    value = real_of<T>(fill);
  } else {
    value = integer_of<T>(fill);
  }
  if (!value) throw_bad(info, fill);
  std::memcpy(info.fill_value.data(), &*value, sizeof(T));
}

void set_number(ArrayInfo& info, const json& fill) {
  switch (info.type) {
    case DataType::kInt8:
      return set_number<int8_t>(info, fill);
    case DataType::kInt16:
      return set_number<int16_t>(info, fill);
    case DataType::kInt32:
      return set_number<int32_t>(info, fill);
    case DataType::kInt64:
      return set_number<int64_t>(info, fill);
    case DataType::kUInt8:
      return set_number<uint8_t>(info, fill);
    case DataType::kUInt16:
      return set_number<uint16_t>(info, fill);
    case DataType::kUInt32:
      return set_number<uint32_t>(info, fill);
    case DataType::kUInt64:
      return set_number<uint64_t>(info, fill);
    case DataType::kFloat32:
      return set_number<float>(info, fill);
    case DataType::kFloat64:
      return set_number<double>(info, fill);
    case DataType::kBool:
      set_number<uint8_t>(info, fill);
      if (std::to_integer<unsigned>(info.fill_value[0]) > 1) throw_bad(info, fill);
      return;
    default:
      throw Internal("no fill value of " + std::string(name_of(info.type)));
  }
}

void set_record(ArrayInfo& info, const json& fill) {
  if (fill.is_number() && fill == 0) return;
  const auto bytes =
      fill.is_string() ? base64_bytes(fill.get_ref<const std::string&>()) : std::nullopt;
  if (!bytes || bytes->size() != info.cell_bytes) throw_bad(info, fill);
  std::memcpy(info.fill_value.data(), bytes->data(), bytes->size());
}

}  // namespace

std::optional<std::string> base64_bytes(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xFFFFFFU;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes += static_cast<char>(bits >> held & 0xFFU);
    }
  }
  return bytes;
}

void set_fill_value(ArrayInfo& info, const json& fill) {
  info.fill_value.assign(info.cell_bytes, std::byte{0});
  info.fill_text.clear();
  if (fill.is_null()) return;
  if (!info.fields.empty()) return set_record(info, fill);
  if (info.strings == StringForm::kNone) return set_number(info, fill);
  // zarr 2 wrote 0 for strings, too.
  if (fill.is_number() && fill == 0) return;
  if (!fill.is_string()) throw_bad(info, fill);
  auto text = fill.get<std::string>();
  if (info.strings == StringForm::kFixedBytes) {
    auto bytes = base64_bytes(text);
    if (!bytes) throw_bad(info, fill);
    text = std::move(*bytes);
  }
  if (info.strings != StringForm::kVlenUtf8) {
    if (!chunked::encode_fixed(text, info.strings, info.fill_value)) throw_bad(info, fill);
    std::vector<std::byte> characters;
    chunked::append_fixed(info.fill_value, info.strings, characters);
    text.assign(reinterpret_cast<const char*>(characters.data()), characters.size());
  }
  info.fill_text = std::move(text);
}

}  // namespace penstock::format::zarr
