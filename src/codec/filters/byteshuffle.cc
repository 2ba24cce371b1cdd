#include "codec/filters/byteshuffle.h"

#include <algorithm>

#include "codec/filters/shuffled_parts.h"

namespace penstock::codec {
namespace {

size_t unshuffle_vectors(VectorPath level, size_t element_bytes,
                         [[maybe_unused]] const std::byte* planes, [[maybe_unused]] size_t count,
                         [[maybe_unused]] std::byte* out) noexcept {
  if (element_bytes != 2 && element_bytes != 4 && element_bytes != 8) return 0;
  switch (level) {
#if PENSTOCK_X86_PATHS
    case VectorPath::kAvx2:
      return unshuffle_avx2(element_bytes, planes, count, count, out);
    case VectorPath::kSse2:
      return unshuffle_sse2(element_bytes, planes, count, count, out);
#endif
    default:
      return 0;
  }
}

}  // namespace

void unshuffle_bytes(size_t element_bytes, std::span<const std::byte> planes,
                     std::span<std::byte> out, VectorPath level) noexcept {
  if (element_bytes <= 1) {
    std::copy(planes.begin(), planes.end(), out.begin());
    return;
  }
  const size_t count = planes.size() / element_bytes;
  const size_t done = unshuffle_vectors(level, element_bytes, planes.data(), count, out.data());
  for (size_t i = done; i < count; ++i) {
    for (size_t k = 0; k < element_bytes; ++k) {
      out[i * element_bytes + k] = planes[k * count + i];
    }
  }
  const auto rest = planes.subspan(count * element_bytes);
  std::copy(rest.begin(), rest.end(),
            out.begin() + static_cast<ptrdiff_t>(planes.size() - rest.size()));
}

void decode_byteshuffle(FilterStep& step) {
  transform_parts(step,
                  [](const FilterStep& s, std::span<const std::byte> in, std::span<std::byte> out) {
                    unshuffle_bytes(size_of(s.type), in, out);
                  });
}

}  // namespace penstock::codec
