#pragma once

#include <cstdint>

namespace penstock::kernel {

/// Calls `body` with a number of the type of a packed row's indices.
template <typename Body>
decltype(auto) with_index_type(uint8_t index_bytes, Body&& body) {
  return index_bytes == 2 ? body(uint16_t{}) : body(uint32_t{});
}

}  // namespace penstock::kernel
