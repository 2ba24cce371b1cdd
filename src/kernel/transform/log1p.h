#pragma once

#include <cstdint>

#include "base/vector_path.h"

// log(1 + x) of many values in place. For float the error is about 2 units in the last place;
// double uses the standard library.
//
// 1 + x = 2^k m with m near 1, and m - 1 = x 2^-k + (2^-k - 1) is rounded once; then
// log(1 + x) = k log 2 + 2 atanh(f / (2 + f)) with f = m - 1, whose series converges fast because
// |f / (2 + f)| < 0.172. Both paths do the same operations in the same order, so results agree to
// the bit. The standard library computes values outside (-0.999, 2^60).

namespace penstock::kernel {

void log1p_values(float* values, uint32_t count, VectorPath path = best_vector_path()) noexcept;
void log1p_values(double* values, uint32_t count, VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock::kernel
