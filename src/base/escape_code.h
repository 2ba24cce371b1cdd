#pragma once

#include <cstdint>

namespace penstock {

/// Code of an escaped value. An integer 0 … 254 is its own code; any other value escapes and is
/// kept exactly.
inline constexpr uint8_t kEscapeCode = 255;

}  // namespace penstock
