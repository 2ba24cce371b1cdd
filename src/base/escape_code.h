#pragma once

#include <cstdint>

namespace penstock {

/// Codes of values: an integer 0 … 254 is its own code, anything else escapes and is kept exactly.
inline constexpr uint8_t kEscapeCode = 255;

}  // namespace penstock
