#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector_path.h"

// Sums the gaps of a row to columns: the second pass of decoding. It is separate from the first
// pass, which patches single gaps with scalar stores. Summed at once, these gaps would be read
// before they have left the store buffer.

namespace penstock::format::pack {

/// Column i is the sum of gaps 0 … i, plus i ones if `strict` (columns then differ; otherwise they
/// may repeat). Writes `count` numbers to `out`, of any alignment. Throws CorruptData if a column
/// is not less than `column_count`, which is at most 2^16 (2^31).
void sum_gaps(const uint16_t* gaps, size_t count, bool strict, uint64_t column_count,
              std::byte* out, VectorPath path = best_vector_path());
void sum_gaps(const uint32_t* gaps, size_t count, bool strict, uint64_t column_count,
              std::byte* out, VectorPath path = best_vector_path());

}  // namespace penstock::format::pack
