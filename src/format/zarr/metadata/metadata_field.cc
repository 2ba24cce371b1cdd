#include "format/zarr/metadata/metadata_field.h"

#include <penstock/error.h>

#include "base/concat.h"
#include "format/chunked/chunk_grid.h"

namespace penstock::format::zarr {

using nlohmann::json;

const json& field(const json& object, const std::string& name) {
  static const json none;
  if (!object.is_object()) throw CorruptData("not a JSON object: " + shown(object));
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string text_field(const json& object, const std::string& name) {
  const json& value = field(object, name);
  if (!value.is_string()) throw CorruptData(name + " must be text, but is " + shown(value));
  return value.get<std::string>();
}

std::vector<uint64_t> lengths(const json& list, std::string_view what) {
  if (!list.is_array() || list.size() > chunked::kMostDimensions) {
    throw CorruptData(concat(what, " must be a list of at most ", chunked::kMostDimensions,
                             " lengths, but is ", shown(list)));
  }
  std::vector<uint64_t> result;
  result.reserve(list.size());
  for (const json& value : list) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) {
      throw CorruptData(
          concat(what, " must have lengths from 0 to 2^63 - 1, but has ", shown(value)));
    }
    result.push_back(value.get<uint64_t>());
  }
  return result;
}

uint32_t small_number(const json& value, uint32_t most, std::string_view what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > most) {
    throw CorruptData(
        concat(what, " must be a number from 1 to ", most, ", but is ", shown(value)));
  }
  return value.get<uint32_t>();
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);  // ASCII
  constexpr size_t kMost = 80;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace penstock::format::zarr
