#include "codec/compressors/dictionary.h"

#include <penstock/error.h>

#include <cstring>
#include <string_view>

#include "base/checked.h"
#include "base/concat.h"

namespace penstock::codec {
namespace {

std::vector<std::string_view> read_dictionary(FilterStep& step, uint8_t length_width) {
  const auto bytes = step.metadata.read<uint32_t>("bytes of dictionary");
  ByteReader entries(step.metadata.take(bytes, "dictionary"));
  std::vector<std::string_view> dictionary;
  while (!entries.empty()) {
    const uint64_t length = read_big_endian(entries, length_width, "string length");
    dictionary.push_back(entries.take_string(length, "dictionary entry"));
  }
  return dictionary;
}

std::string_view word(const std::vector<std::string_view>& dictionary, uint64_t id) {
  if (id >= dictionary.size()) {
    throw CorruptData(concat("dictionary id ", id, " of ", dictionary.size(), " entries"));
  }
  return dictionary[id];
}

}  // namespace

void decode_dictionary_strings(FilterStep& step, StringTarget& target) {
  read_string_header(step, target);
  const uint8_t id_width = read_integer_width(step, "width of dictionary ids");
  const uint8_t length_width = read_integer_width(step, "width of string lengths");
  const auto dictionary = read_dictionary(step, length_width);
  step.pass_metadata();
  if (step.data.size() % id_width != 0) {
    throw CorruptData(
        concat("dictionary ids of ", id_width, " bytes in ", step.data.size(), " bytes"));
  }

  uint64_t characters = 0;
  for (ByteReader in(step.data); !in.empty();) {
    const uint64_t id = read_big_endian(in, id_width, "dictionary id");
    characters = checked_add<uint64_t>(characters, word(dictionary, id).size(), "characters");
  }
  size_target(step, target, step.data.size() / id_width, characters);

  auto* to = reinterpret_cast<char*>(target.characters.data());
  uint64_t offset = 0;
  for (ByteReader in(step.data); !in.empty();) {
    const std::string_view entry = dictionary[read_big_endian(in, id_width, "dictionary id")];
    target.offsets.push_back(offset);
    if (!entry.empty()) std::memcpy(to + offset, entry.data(), entry.size());
    offset += entry.size();
  }
}

}  // namespace penstock::codec
