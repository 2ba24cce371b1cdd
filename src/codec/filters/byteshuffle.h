#pragma once

#include <cstddef>
#include <span>

#include "base/vector_path.h"
#include "codec/tile/filter_step.h"

// Byte shuffle: byte k of all elements, then byte k + 1 of all …, low byte first. Bytes after the
// last whole element are stored unchanged at the end. Metadata: uint32 parts | uint32 bytes a part.
// Source: byteshuffle_filter.cc; the Blosc library that it names.

namespace penstock::codec {

void decode_byteshuffle(FilterStep& step);

/// Converts planes to elements of `element_bytes` bytes. Both spans must have the same size and not
/// overlap; any alignment. There are vector paths for 2, 4 and 8 bytes; `level` must not exceed
/// best_vector_path().
void unshuffle_bytes(size_t element_bytes, std::span<const std::byte> planes,
                     std::span<std::byte> out, VectorPath level = best_vector_path()) noexcept;

/// Vector paths: un-shuffle as many of `count` elements as fill whole vectors, and return their
/// number. The planes start at `planes`, `stride` bytes apart. `element_bytes` is 2, 4 or 8.
size_t unshuffle_sse2(size_t element_bytes, const std::byte* planes, size_t stride, size_t count,
                      std::byte* out) noexcept;
size_t unshuffle_avx2(size_t element_bytes, const std::byte* planes, size_t stride, size_t count,
                      std::byte* out) noexcept;

}  // namespace penstock::codec
