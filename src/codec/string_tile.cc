#include "codec/string_tile.h"

#include <penstock/error.h>

#include "codec/filter_pipeline.h"

namespace penstock::codec {

uint64_t read_string_header(FilterStep& step, const StringTarget& target) {
  const auto metadata_parts = step.metadata.read<uint32_t>("number of metadata parts");
  const auto data_parts = step.metadata.read<uint32_t>("number of data parts");
  const auto characters = step.metadata.read<uint32_t>("characters");
  const auto stored = step.metadata.read<uint32_t>("encoded length");
  const auto offset_bytes = step.metadata.read<uint32_t>("bytes of offsets");
  if (metadata_parts != 0 || data_parts != 1 || characters != target.original_bytes ||
      stored != step.data.size()) {
    throw CorruptData(std::string(name_of(step.config.type)) +
                      " strings: " + std::to_string(metadata_parts) + " metadata parts, " +
                      std::to_string(data_parts) + " data parts, " + std::to_string(characters) +
                      " characters (chunk has " + std::to_string(target.original_bytes) + "), " +
                      std::to_string(stored) + " encoded bytes (" +
                      std::to_string(step.data.size()) + " there)");
  }
  return target.string_count == kUnknownCount ? offset_bytes / sizeof(uint64_t)
                                              : target.string_count;
}

void size_target(const FilterStep& step, StringTarget& target, uint64_t strings,
                 uint64_t characters) {
  if (characters != target.original_bytes ||
      (target.string_count != kUnknownCount && strings != target.string_count)) {
    throw CorruptData(
        std::string(name_of(step.config.type)) + " strings decode to " + std::to_string(strings) +
        " strings of " + std::to_string(characters) + " characters, expected " +
        (target.string_count == kUnknownCount ? "any" : std::to_string(target.string_count)) +
        " of " + std::to_string(target.original_bytes));
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
