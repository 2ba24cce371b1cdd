#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"
#include "codec/tile/filter_pipeline.h"

// Column ids of any integer type, plain or as byte planes, to 16 or 32 bits in one pass. Pure,
// noexcept. Each path is the same code, compiled for its instructions. narrow_ids.h is faster for
// int64 ids of TileDB's tiles, which it also shifts.

namespace penstock::format {

/// Writes the low bits of `count` ids to `out`. Returns the largest id; a negative one counts as
/// larger than all others, as does one that does not fit `out`. So ids are right if the result is
/// below the number of columns. `type` must be an integer type, and `ids` holds at least count *
/// size_of(type) bytes.
uint64_t narrow_stored_ids(DataType type, const codec::CellBytes& ids, size_t count, uint16_t* out,
                           VectorPath path = best_vector_path()) noexcept;
uint64_t narrow_stored_ids(DataType type, const codec::CellBytes& ids, size_t count, uint32_t* out,
                           VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock::format
