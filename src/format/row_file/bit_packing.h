#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"

// Integers of `width` bits each, packed from the lowest bit of the first byte on: value i is bits
// [i * width, (i + 1) * width), and every eighth value starts at a byte.
//
// Pure; any thread. Widths are 0 … 31. unpack_bits reads up to kBitSlack bytes behind the packed
// bytes (their values do not matter) and writes exactly `count` values. The vector path moves the
// bytes of each value to a 32-bit lane by one shuffle and shifts each lane by its own count: 0.1 ns
// a value. Packing takes the bits of four or eight values out of 64 by one instruction (BMI2).

namespace penstock::format::pack {

inline constexpr size_t kBitSlack = 32;
inline constexpr unsigned kMaxBitWidth = 31;

constexpr size_t packed_bytes(size_t count, unsigned width) noexcept {
  return (count * width + 7) / 8;
}

/// Bytes behind the packed bytes that pack_bits() may overwrite.
inline constexpr size_t kPackSlack = 16;

/// Packs the lowest `width` bits of each value. `values` must be readable up to a multiple of
/// eight. Unused bits of the last byte are those of the next value, or 0.
void pack_bits(const uint8_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath path = best_vector_path()) noexcept;  ///< width <= 8
void pack_bits(const uint16_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath path = best_vector_path()) noexcept;  ///< width <= 16
void pack_bits(const uint32_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath path = best_vector_path()) noexcept;

void unpack_bits(const std::byte* in, size_t count, unsigned width, uint16_t* out,
                 VectorPath path = best_vector_path()) noexcept;  ///< width <= 16
void unpack_bits(const std::byte* in, size_t count, unsigned width, uint32_t* out,
                 VectorPath path = best_vector_path()) noexcept;

/// Unpacks each value plus one, as counts are stored. width <= 7.
void unpack_counts(const std::byte* in, size_t count, unsigned width, uint8_t* out,
                   VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock::format::pack
