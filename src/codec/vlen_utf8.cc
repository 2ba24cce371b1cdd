#include "codec/vlen_utf8.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "base/utf8.h"

namespace penstock::codec {

void decode_vlen_utf8(std::span<const std::byte> chunk, uint64_t count,
                      std::vector<std::byte>& characters, std::vector<uint64_t>& offsets) {
  ByteReader reader(chunk);
  const uint64_t stored_count = reader.read<uint32_t>("number of strings");
  if (stored_count != count) {
    throw CorruptData(
        concat("vlen-utf8: the chunk has ", stored_count, " strings, expected ", count));
  }
  reader.expect_items(count, sizeof(uint32_t), "strings");
  ByteReader strings = reader;
  for (uint64_t index = 0; index < count; ++index) {
    const auto length = reader.read<uint32_t>("length of a string");
    if (!is_utf8(reader.take_string(length, "string"))) {
      throw CorruptData(concat("vlen-utf8: string ", index, " of ", count,
                               " is not UTF-8, at byte ", reader.offset() - length));
    }
  }
  if (!reader.empty()) {
    throw CorruptData(concat("vlen-utf8: ", reader.remaining(), " bytes follow the last of ", count,
                             " strings at byte ", reader.offset()));
  }
  // Nothing is appended before the whole chunk was checked.
  size_t end = characters.size();
  size_t written = offsets.size();
  characters.resize(end + strings.remaining() - count * sizeof(uint32_t));
  offsets.resize(written + count);
  while (!strings.empty()) {
    const auto text = strings.take(strings.read<uint32_t>("length of a string"), "string");
    std::copy(text.begin(), text.end(), characters.begin() + static_cast<ptrdiff_t>(end));
    end += text.size();
    offsets[written++] = end;
  }
}

}  // namespace penstock::codec
