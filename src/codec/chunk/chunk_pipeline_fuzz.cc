#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "codec/chunk/chunk_pipeline.h"
#include "codec/testing/fuzz_chunk.h"

// Pipelines of up to three filters. An input is
//
//   uint8 filters | (uint8 filter, uint8 bytes of an element) a filter | uint8 skipped
//   uint8 bytes of a cell | uint16 begin, uint16 end of a part, in 65,535ths
//   uint32 decoded bytes | stored chunk

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::codec;
  const size_t count = size == 0 ? 0 : data[0] % 4;
  const size_t head = 1 + 2 * count + 10;
  if (size < head) return 0;
  std::vector<ChunkFilter> filters(count);
  for (size_t index = 0; index < count; ++index) {
    filters[index].type = static_cast<ChunkFilterType>(data[1 + 2 * index] % 7);
    filters[index].element_bytes = data[2 + 2 * index];
  }
  FuzzedPart part;
  const uint8_t* rest = data + 1 + 2 * count;
  part.skipped = rest[0];
  part.cell_bytes = rest[1] + 1U;
  std::memcpy(&part.begin, rest + 2, sizeof(part.begin));
  std::memcpy(&part.end, rest + 4, sizeof(part.end));
  std::memcpy(&part.decoded_bytes, rest + 6, sizeof(uint32_t));
  fuzz_chunk(ChunkPipeline(std::move(filters)), part, {data + head, size - head});
  return 0;
}
