#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/compressors/zstd.h"
#include "codec/zstd/run_decoder.h"

// Compares the runs of accepted frames with libzstd. An input is
//
//   uint16 cells | frame

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::codec;
  if (size < 2) return 0;
  const uint64_t cells = data[0] | uint64_t{data[1]} << 8;
  // A copy of the exact length, so that a read outside it is found.
  const std::vector<uint8_t> copy(data + 2, data + size);
  const auto frame = std::as_bytes(std::span(copy));
  static zstd::RunDecoder decoder;
  std::vector<CellRun> runs;
  if (!decoder.decode(frame, cells * 8, runs)) {
    if (!runs.empty()) __builtin_trap();
    return 0;
  }
  std::vector<uint64_t> expected(cells);
  if (!zstd_decompress(frame, std::as_writable_bytes(std::span(expected)))) __builtin_trap();
  size_t at = 0;
  for (const CellRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      if (at == cells || expected[at++] != run.value) __builtin_trap();
    }
  }
  if (at != cells) __builtin_trap();
  return 0;
}
