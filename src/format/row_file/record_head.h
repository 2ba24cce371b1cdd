#pragma once

#include <penstock/error.h>

#include <cstdint>
#include <string>

#include "base/concat.h"
#include "kernel/packed_row.h"

namespace penstock::format::pack {

// First byte of a record's body.
inline constexpr uint8_t kCountForm = 0;
inline constexpr uint8_t kRawForm = 1;
inline constexpr uint8_t kFormMask = 3;
inline constexpr uint8_t kRepeatsFlag = 4;  ///< columns may repeat; gaps are not reduced by one

inline void check_columns(const kernel::PackedRowLayout& layout, uint64_t column_count) {
  const uint64_t most = layout.index_bytes == 2 ? uint64_t{1} << 16 : uint64_t{1} << 31;
  if (column_count > most) {
    throw InvalidArgument(
        concat("a matrix to pack has at most ", most, " columns, got ", column_count));
  }
}

}  // namespace penstock::format::pack
