#pragma once

#include <cstddef>
#include <span>

#include "codec/filter_step.h"

// Byte shuffle: byte k of all elements, then byte k + 1 of all …, low byte first; bytes after the
// last whole element stand at the end as they were. Metadata: uint32 parts | uint32 bytes a part.
// Source: byteshuffle_filter.cc; the Blosc library that it names.

namespace penstock::codec {

void decode_byteshuffle(FilterStep& step);

/// Planes to elements of `element_bytes` bytes. Both spans have the same size and do not overlap.
void unshuffle_bytes(size_t element_bytes, std::span<const std::byte> planes,
                     std::span<std::byte> out) noexcept;

/// The same, one byte after the other: what the fast paths are tested against.
void unshuffle_bytes_scalar(size_t element_bytes, std::span<const std::byte> planes,
                            std::span<std::byte> out) noexcept;

}  // namespace penstock::codec
