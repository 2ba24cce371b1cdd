#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/escape_code.h"
#include "base/vector_path.h"

// Converts values of a decoded chunk to the narrow form of row blocks: one byte each, with exact
// escapes. Un-shuffling is fused, so the wide cells are never written. The X reader calls
// FilterPipeline::decode_chunk_planes and then one of these functions on the result. A chunk of 64
// KiB stays in the caches nearest to the core.
//
// Inputs are little-endian cells or their byte planes (low byte first, the whole span one part), of
// any alignment. input.size() must be the cell's width times output.size(). Pure, any thread.
// `level` is for tests; it must not exceed best_vector_path().

namespace penstock::codec {

inline constexpr size_t kAnyNumber = ~size_t{0};

/// A value that has no one-byte code, bit for bit.
template <typename Bits>
struct Escape {
  uint32_t position = 0;  ///< in the given span
  Bits bits = 0;

  friend bool operator==(const Escape&, const Escape&) = default;
};

template <typename Bits>
using Escapes = std::vector<Escape<Bits>>;

/// Converts values to codes. An integer 0 … 254 is its own code (for floats +0.0, but not -0.0).
/// Any other value gets kEscapeCode and is appended to `escapes`, in order. Returns false once
/// `escapes` has more than `max_escapes`; later `codes` are then undefined, and readers keep raw
/// values.
bool float32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                      Escapes<uint32_t>& escapes, size_t max_escapes = kAnyNumber,
                      VectorPath level = best_vector_path());
bool int32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint32_t>& escapes, size_t max_escapes = kAnyNumber,
                    VectorPath level = best_vector_path());
bool int64_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint64_t>& escapes, size_t max_escapes = kAnyNumber,
                    VectorPath level = best_vector_path());
bool shuffled_float32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                               Escapes<uint32_t>& escapes, size_t max_escapes = kAnyNumber,
                               VectorPath level = best_vector_path());
bool shuffled_int32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint32_t>& escapes, size_t max_escapes = kAnyNumber,
                             VectorPath level = best_vector_path());
bool shuffled_int64_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint64_t>& escapes, size_t max_escapes = kAnyNumber,
                             VectorPath level = best_vector_path());

/// The code of one value of any stored type; the definition that all paths above follow.
template <typename T>
uint8_t code_of(T value) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    // The comparison also refuses NaN. Only -0.0 passes it with another bit pattern.
    if (!(value >= 0 && value <= 254)) return kEscapeCode;
    const auto code = static_cast<uint8_t>(value);
    return static_cast<T>(code) == value && !std::signbit(value) ? code : kEscapeCode;
  } else {
    const auto magnitude = static_cast<std::make_unsigned_t<T>>(value);
    return std::is_signed_v<T> && value < 0 ? kEscapeCode
           : magnitude < kEscapeCode        ? static_cast<uint8_t>(magnitude)
                                            : kEscapeCode;
  }
}

}  // namespace penstock::codec
