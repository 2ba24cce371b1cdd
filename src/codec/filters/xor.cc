#include "codec/filters/xor.h"

#include <penstock/error.h>

#include <cstring>

#include "base/concat.h"
#include "codec/filters/shuffled_parts.h"

namespace penstock::codec {
namespace {

template <typename T>
void accumulate(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  T value = 0;
  for (size_t at = 0; at < in.size(); at += sizeof(T)) {
    T stored;
    std::memcpy(&stored, in.data() + at, sizeof(T));
    value = static_cast<T>(value ^ stored);
    std::memcpy(out.data() + at, &value, sizeof(T));
  }
}

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  const size_t width = size_of(step.type);
  if (in.size() % width != 0) {
    throw CorruptData(concat("xor: values of ", width, " bytes in a part of ", in.size()));
  }
  switch (width) {
    case 1:
      return accumulate<uint8_t>(in, out);
    case 2:
      return accumulate<uint16_t>(in, out);
    case 4:
      return accumulate<uint32_t>(in, out);
    default:
      return accumulate<uint64_t>(in, out);
  }
}

}  // namespace

void decode_xor(FilterStep& step) { transform_parts(step, decode_part); }

}  // namespace penstock::codec
