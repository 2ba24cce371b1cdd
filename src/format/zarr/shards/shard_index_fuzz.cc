// First byte: number of chunks. Second byte: bits of the form, and whether the checksum is set to
// that of the entries, which a fuzzer cannot find. The rest is the stored index.

#include <penstock/error.h>

#include <cstring>
#include <vector>

#include "base/hash/checksum.h"
#include "format/zarr/shards/shard_index.h"

using namespace penstock;
using namespace penstock::format::zarr;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> stored(input.begin() + 2, input.end());
  const ShardIndexForm form{data[0], (data[1] & 1) != 0, (data[1] & 2) != 0, (data[1] & 4) != 0};
  const size_t entries = size_t{form.chunks} * 16;
  if ((data[1] & 8) != 0 && form.checksum && stored.size() == entries + 4) {
    const uint32_t sum = crc32c(std::span(stored).first(entries));
    std::memcpy(stored.data() + entries, &sum, sizeof(sum));
  }
  const uint64_t shard_bytes = stored.size() + data[1];
  try {
    form.place_in(shard_bytes);
    const auto index = ShardIndex::parse(stored, form, shard_bytes);
    for (uint64_t chunk = 0; chunk <= form.chunks; ++chunk) {
      const auto range = index.chunk(chunk);
      if (!range) continue;
      if (range->offset > shard_bytes || range->length > shard_bytes - range->offset) {
        throw Internal("a chunk that is not in its shard");
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
