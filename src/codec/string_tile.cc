#include "codec/string_tile.h"

#include <penstock/error.h>

namespace penstock::codec {

void read_string_header(FilterStep& step, const StringTarget& target) {
  const auto metadata_parts = step.metadata.read<uint32_t>("number of metadata parts");
  const auto data_parts = step.metadata.read<uint32_t>("number of data parts");
  const auto characters = step.metadata.read<uint32_t>("characters");
  const auto stored = step.metadata.read<uint32_t>("encoded length");
  step.metadata.skip(sizeof(uint32_t), "bytes of offsets");
  if (metadata_parts != 0 || data_parts != 1 || characters != target.expected.characters ||
      stored != step.data.size()) {
    throw CorruptData(std::string(name_of(step.config.type)) +
                      " strings: " + std::to_string(metadata_parts) + " metadata parts, " +
                      std::to_string(data_parts) + " data parts, " + std::to_string(characters) +
                      " characters (expected " + std::to_string(target.expected.characters) +
                      "), " + std::to_string(stored) + " encoded bytes (" +
                      std::to_string(step.data.size()) + " there)");
  }
}

void size_target(const FilterStep& step, StringTarget& target, uint64_t strings,
                 uint64_t characters) {
  const StringTileSize& expected = target.expected;
  if (characters != expected.characters || strings != expected.strings) {
    throw CorruptData(std::string(name_of(step.config.type)) + " strings decode to " +
                      std::to_string(strings) + " strings of " + std::to_string(characters) +
                      " characters, expected " + std::to_string(expected.strings) + " of " +
                      std::to_string(expected.characters));
  }
  target.characters.resize_discard(static_cast<size_t>(characters));
  target.offsets.clear();
  target.offsets.reserve(static_cast<size_t>(strings));
}

uint8_t read_integer_width(FilterStep& step, std::string_view what) {
  const auto width = step.metadata.read<uint8_t>(what);
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    throw CorruptData(std::string(what) + " must be 1, 2, 4 or 8 bytes: " + std::to_string(width));
  }
  return width;
}

}  // namespace penstock::codec
