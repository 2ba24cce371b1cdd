#pragma once

#include <cstddef>
#include <cstring>

namespace penstock::kernel {

/// Clears a dense row that is about to be filled, leaving it in cache.
inline void zero_fill(std::byte* data, size_t bytes) noexcept {
  if (bytes != 0) std::memset(data, 0, bytes);
}

}  // namespace penstock::kernel
