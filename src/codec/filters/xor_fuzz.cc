#include "codec/testing/fuzz_tile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return penstock::codec::fuzz_filter(penstock::codec::FilterType::kXor, data, size);
}
