#pragma once

#include <cstddef>
#include <span>

#include "base/memory/buffer.h"

// LZF, as h5py's filter 32000 stores it: literal runs and copies from up to 8 KiB before. Source:
// Marc Lehmann, liblzf (lzf_d.c); h5py, lzf/lzf_filter.c.

namespace penstock::codec {

/// Bytes that one stored byte can make, at most: 264 of three.
inline constexpr size_t kMostLzfExpansion = 88;

/// Decodes all of `in`. False if the stream is bad, or does not fill `out` exactly.
bool lzf_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept;

/// Decodes all of `in` into `out`. False if the stream is bad or makes more than `most` bytes.
bool lzf_decompress_unsized(std::span<const std::byte> in, uint64_t most, Buffer& out);

}  // namespace penstock::codec
