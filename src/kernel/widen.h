#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"

// Widens runs of narrow unsigned numbers: 16-bit columns to int32, codes to values. Sources may be
// unaligned; nothing is read or written past `count`. The last vector is moved back to end at
// `count`, so some elements are written twice.

namespace penstock::kernel {

void widen_indices(const std::byte* from, uint32_t count, int32_t* to, VectorPath path) noexcept;

template <typename T>
void widen_codes(const uint8_t* from, uint32_t count, T* to, VectorPath path) noexcept;

/// Position of the first kEscapeCode in [begin, count), or count.
uint32_t find_escape(const uint8_t* codes, uint32_t begin, uint32_t count,
                     VectorPath path) noexcept;

}  // namespace penstock::kernel
