#include "codec/byteshuffle.h"

#include <cstring>

#include "codec/shuffled_parts.h"

namespace penstock::codec {

void unshuffle_bytes_scalar(size_t element_bytes, std::span<const std::byte> planes,
                            std::span<std::byte> out) noexcept {
  const size_t count = planes.size() / element_bytes;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < element_bytes; ++k) {
      out[i * element_bytes + k] = planes[k * count + i];
    }
  }
  for (size_t i = count * element_bytes; i < planes.size(); ++i) out[i] = planes[i];
}

void unshuffle_bytes(size_t element_bytes, std::span<const std::byte> planes,
                     std::span<std::byte> out) noexcept {
  unshuffle_bytes_scalar(element_bytes, planes, out);
}

void decode_byteshuffle(FilterStep& step) {
  transform_parts(step,
                  [](const FilterStep& s, std::span<const std::byte> in, std::span<std::byte> out) {
                    unshuffle_bytes(size_of(s.type), in, out);
                  });
}

}  // namespace penstock::codec
