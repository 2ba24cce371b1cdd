#include <penstock/error.h>

#include "base/utf8.h"
#include "codec/vlen_utf8.h"

// An input is
//
//   uint16 strings | chunk

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const uint64_t count = data[0] | uint64_t{data[1]} << 8;
  // A copy of the exact length, so that a read outside it is found.
  const std::vector<uint8_t> chunk(data + 2, data + size);
  std::vector<std::byte> characters(1);
  std::vector<uint64_t> offsets(1, 1);
  try {
    codec::decode_vlen_utf8(std::as_bytes(std::span(chunk)), count, characters, offsets);
  } catch (const Error&) {
    if (characters.size() != 1 || offsets.size() != 1) __builtin_trap();
    return 0;
  }
  if (offsets.size() != count + 1 || offsets.back() != characters.size()) __builtin_trap();
  for (size_t index = 1; index < offsets.size(); ++index) {
    const uint64_t begin = offsets[index - 1];
    if (offsets[index] < begin || offsets[index] > characters.size()) __builtin_trap();
    const auto* text = reinterpret_cast<const char*>(characters.data()) + begin;
    if (!is_utf8({text, offsets[index] - begin})) __builtin_trap();
  }
  return 0;
}
