#pragma once

#include <cstddef>
#include <span>

// BloscLZ, the compressor that Blosc chunks use unless told otherwise. A stream is a row of
// commands; the first byte tells which:
//
//   000nnnnn                     n + 1 literal bytes follow
//   lllddddd [more length] low   copy l + 2 bytes from d * 256 + low + 1 bytes back
//
// With l = 7, bytes of more length follow, the last one below 255. If the distance has all its
// bits set (d = 31, low = 255), two bytes follow, high first: the distance is theirs + 8192. The
// upper bits of the first byte of the stream are no part of its command, which is literal.
// Source: c-blosc blosclz.c, blosclz_decompress (1.21).

namespace penstock::codec {

/// Decompresses `in` into `out`. False if the stream is bad or does not fill `out` exactly.
bool blosclz_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept;

}  // namespace penstock::codec
