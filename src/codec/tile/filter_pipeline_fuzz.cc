#include "codec/testing/fuzz_tile.h"

// uint8 data type | uint8 format | uint16 strings | serialized pipeline | stored tile

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 4) return 0;
  const auto type = static_cast<DataType>(data[0] % (kLastDataType + 1));
  const uint64_t strings = data[2] | uint64_t{data[3]} << 8;
  ByteReader reader(std::as_bytes(std::span(data + 4, size - 4)));
  try {
    const auto pipeline = codec::FilterPipeline::parse(reader, data[1]);
    codec::fuzz_decode(pipeline, type, data[1], 0, strings,
                       reader.take(reader.remaining(), "tile"));
  } catch (const Error&) {
  }
  return 0;
}
