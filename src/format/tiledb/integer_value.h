#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/types/visit_type.h"

// Stored coordinates of any integer, date or time type as int64. Unsigned 64-bit values keep their
// bits.

namespace penstock::format::tiledb {

/// Reads the value at `from`, which has size_of(type) bytes. Throws `Internal` for other types.
inline int64_t read_integer(DataType type, const std::byte* from) {
  return visit_integer(stored_type(type), [from](auto identity) {
    typename decltype(identity)::type value;
    std::memcpy(&value, from, sizeof(value));
    return static_cast<int64_t>(value);
  });
}

}  // namespace penstock::format::tiledb
