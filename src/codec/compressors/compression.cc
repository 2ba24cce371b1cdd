#include "codec/compressors/compression.h"

#include <penstock/error.h>

#include "base/concat.h"
#include "codec/tile/expansion.h"

namespace penstock::codec {
namespace {

struct PartTable {
  ByteReader entries;
  uint64_t metadata_parts = 0;
  uint64_t data_parts = 0;
  uint64_t metadata_bytes = 0;  ///< decoded
  uint64_t data_bytes = 0;      ///< decoded
};

// Sums of at most 2^33 32-bit lengths: cannot overflow 64 bits.
PartTable read_table(FilterStep& step) {
  PartTable table;
  table.metadata_parts = step.metadata.read<uint32_t>("number of metadata parts");
  table.data_parts = step.metadata.read<uint32_t>("number of data parts");
  const uint64_t parts = table.metadata_parts + table.data_parts;
  step.metadata.expect_items(parts, 2 * sizeof(uint32_t), "compressed parts");
  table.entries = step.metadata;
  uint64_t compressed = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    const auto original = step.metadata.read<uint32_t>("part original length");
    const auto stored = step.metadata.read<uint32_t>("part compressed length");
    if (original > most_decoded_bytes(step.config.type, stored)) {
      throw_bad_part(step.config.type, "an implausible size", stored, original);
    }
    compressed += stored;
    (part < table.metadata_parts ? table.metadata_bytes : table.data_bytes) += original;
  }
  if (compressed != step.data.size()) {
    throw CorruptData(concat(name_of(step.config.type), ": parts of ", compressed,
                             " compressed bytes in ", step.data.size(), " bytes of data"));
  }
  if (!step.metadata.empty()) {
    throw CorruptData(concat(name_of(step.config.type), ": ", step.metadata.remaining(),
                             " bytes of metadata after the parts"));
  }
  return table;
}

void decode_parts(FilterStep& step, PartTable& table, ByteReader& in, uint64_t count,
                  std::span<std::byte> out, PartDecoder decode_part) {
  ByteReader room(out);
  for (uint64_t part = 0; part < count; ++part) {
    const auto original = table.entries.read<uint32_t>("part original length");
    const auto compressed = table.entries.read<uint32_t>("part compressed length");
    const auto offset = room.offset();
    room.skip(original, "part");
    decode_part(step, in.take(compressed, "part"), out.subspan(offset, original));
  }
}

}  // namespace

void decode_compressed(FilterStep& step, PartDecoder decode_part) {
  PartTable table = read_table(step);
  ByteReader in(step.data);
  decode_parts(step, table, in, table.metadata_parts, step.make_metadata(table.metadata_bytes),
               decode_part);
  decode_parts(step, table, in, table.data_parts, step.make_data(table.data_bytes), decode_part);
}

void throw_bad_part(FilterType type, std::string_view why, size_t in_bytes, size_t out_bytes) {
  throw CorruptData(
      concat(name_of(type), ": ", why, ", ", in_bytes, " compressed bytes to ", out_bytes));
}

}  // namespace penstock::codec
