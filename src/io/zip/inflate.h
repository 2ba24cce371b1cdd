#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::io {

/// Throws CorruptData if no deflate stream of `stored` bytes can make `inflated` bytes. Call it
/// before memory is allocated.
void expect_inflatable(uint64_t stored, uint64_t inflated);

/// Throws CorruptData unless the contents of an entry have this CRC-32.
void expect_crc32(std::span<const std::byte> contents, uint32_t expected);

/// Inflates a raw deflate stream (RFC 1951) to exactly out.size() bytes with this CRC-32. Throws
/// CorruptData.
void inflate_raw(std::span<const std::byte> stored, std::span<std::byte> out,
                 uint32_t expected_crc);

}  // namespace penstock::io
