#include <cstring>

#include "codec/testing/fuzz_chunk.h"

// One Blosc chunk, of which the header gives the size. An input is
//
//   uint16 begin, uint16 end of a part, in 65,535ths | stored chunk

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::codec;
  constexpr size_t kHead = 4;
  constexpr size_t kHeader = 16;
  if (size < kHead + kHeader) return 0;
  FuzzedPart part;
  std::memcpy(&part.begin, data, sizeof(part.begin));
  std::memcpy(&part.end, data + 2, sizeof(part.end));
  std::memcpy(&part.decoded_bytes, data + kHead + 4, sizeof(uint32_t));
  part.cell_bytes = std::max<uint32_t>(1, data[kHead + 3]);
  fuzz_chunk(ChunkPipeline({{ChunkFilterType::kBlosc, 0}}), part, {data + kHead, size - kHead});
  return 0;
}
