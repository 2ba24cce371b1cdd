#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"

// Inner loops over a tile's coordinates: where the row changes, and whether columns ascend. Scalar
// references and AVX2 paths; pure, noexcept, any alignment.

namespace penstock::format {

/// Writes `base` + i to `begins` for every i in [0, count) where rows[i] differs from the row
/// before it (`previous` before the first) and returns their number. `begins` has room for `count`.
size_t find_row_changes(const int64_t* rows, size_t count, int64_t previous, uint32_t base,
                        uint32_t* begins, VectorPath path) noexcept;

/// Number of i in [1, count) with indices[i] <= indices[i - 1].
size_t count_not_ascending(const uint16_t* indices, size_t count, VectorPath path) noexcept;
size_t count_not_ascending(const uint32_t* indices, size_t count, VectorPath path) noexcept;

}  // namespace penstock::format
