#pragma once

#include <cstdint>

namespace penstock::codec {

/// Neighbouring cells of 8 bytes that are equal.
struct CellRun {
  uint64_t value;
  uint64_t count;
};

}  // namespace penstock::codec
