#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"
#include "codec/tile/filter_pipeline.h"

// Stored column ids (int64, plain or as byte planes) to 16 or 32 bits in one pass. Pure, noexcept;
// scalar reference and AVX2 paths. Ids are not trusted: the range shows ids that do not fit.

namespace penstock::format {

struct IdRange {
  uint32_t min = 0xFFFFFFFFU;  ///< of the ids' low 16 or 32 bits
  uint32_t max = 0;
  uint64_t high = 0;  ///< not 0 when an id does not fit those bits

  /// Whether all ids lie in [first, last], which must fit the narrowed width.
  bool within(int64_t first, int64_t last) const noexcept {
    return high == 0 && int64_t{min} >= first && int64_t{max} <= last;
  }
};

/// out[i] = id[i] - shift, modulo the width of `out`. `range` includes the ids without the shift.
void narrow_ids(const codec::CellBytes& ids, size_t count, uint32_t shift, uint16_t* out,
                IdRange& range, VectorPath path) noexcept;
void narrow_ids(const codec::CellBytes& ids, size_t count, uint32_t shift, uint32_t* out,
                IdRange& range, VectorPath path) noexcept;

}  // namespace penstock::format
