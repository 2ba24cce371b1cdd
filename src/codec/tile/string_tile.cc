#include "codec/tile/string_tile.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::codec {

void read_string_header(FilterStep& step, const StringTarget& target) {
  const auto metadata_parts = step.metadata.read<uint32_t>("number of metadata parts");
  const auto data_parts = step.metadata.read<uint32_t>("number of data parts");
  const auto characters = step.metadata.read<uint32_t>("characters");
  const auto stored = step.metadata.read<uint32_t>("encoded length");
  step.metadata.skip(sizeof(uint32_t), "bytes of offsets");
  if (metadata_parts != 0 || data_parts != 1 || characters != target.expected.characters ||
      stored != step.data.size()) {
    throw CorruptData(concat(name_of(step.config.type), " strings: ", metadata_parts,
                             " metadata parts, ", data_parts, " data parts, ", characters,
                             " characters (expected ", target.expected.characters, "), ", stored,
                             " encoded bytes (", step.data.size(), " there)"));
  }
}

void size_target(const FilterStep& step, StringTarget& target, uint64_t strings,
                 uint64_t characters) {
  const StringTileSize& expected = target.expected;
  if (characters != expected.characters || strings != expected.strings) {
    throw CorruptData(concat(name_of(step.config.type), " strings decode to ", strings,
                             " strings of ", characters, " characters, expected ", expected.strings,
                             " of ", expected.characters));
  }
  target.characters.resize_discard(static_cast<size_t>(characters));
  target.offsets.clear();
  target.offsets.reserve(static_cast<size_t>(strings));
}

uint8_t read_integer_width(FilterStep& step, std::string_view what) {
  const auto width = step.metadata.read<uint8_t>(what);
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    throw CorruptData(concat(what, " must be 1, 2, 4 or 8 bytes: ", width));
  }
  return width;
}

}  // namespace penstock::codec
