#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"

// Integers of `width` bits each, one after the other from the lowest bit of the first byte on, so
// that eight of them begin at a byte: value i is bits [i * width, (i + 1) * width).
//
// Pure; any thread. Widths are 0 … 31. unpack_bits reads up to kBitSlack bytes behind the packed
// ones (their values do not matter) and writes exactly `count` values. The vector path brings the
// bytes of each value to a 32-bit lane by one shuffle and shifts each lane by its own count:
// 0.1 ns a value. Packing takes the bits of four or eight values out of 64 by one instruction
// (BMI2).

namespace penstock::format::pack {

inline constexpr size_t kBitSlack = 32;
inline constexpr unsigned kMaxBitWidth = 31;

constexpr size_t packed_bytes(size_t count, unsigned width) noexcept {
  return (count * width + 7) / 8;
}

/// Bytes behind the packed ones that pack_bits() may overwrite.
inline constexpr size_t kPackSlack = 16;

/// The lowest `width` bits of each value. `values` can be read up to a multiple of eight; the bits
/// of the last byte that no value has are those of the next, or 0.
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

/// Each value plus one, as counts are stored. width <= 7.
void unpack_counts(const std::byte* in, size_t count, unsigned width, uint8_t* out,
                   VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock::format::pack
