#include "codec/compressors/lz4.h"

#include <lz4.h>

#include <limits>

#include "codec/compressors/compression.h"

namespace penstock::codec {
namespace {

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  if (!lz4_decompress(in, out)) {
    throw_bad_part(step.config.type, "bad block", in.size(), out.size());
  }
}

}  // namespace

bool lz4_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  constexpr size_t kMax = std::numeric_limits<int>::max();
  if (in.size() > kMax || out.size() > kMax) return false;
  const int size = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()),
                                       reinterpret_cast<char*>(out.data()),
                                       static_cast<int>(in.size()), static_cast<int>(out.size()));
  return size >= 0 && static_cast<size_t>(size) == out.size();
}

void decode_lz4(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
