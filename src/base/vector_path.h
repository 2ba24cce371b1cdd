#pragma once

#include <cstdint>

// The one place where an instruction set is chosen, at run time. Every kernel (codec/, kernel/,
// format/soma) has a scalar path that is its reference and the only one off x86-64; tests run each
// path against it. A kernel without a path of some level takes the next lower one.

namespace penstock {

enum class VectorPath : uint8_t { kScalar, kSse2, kAvx2 };

/// The fastest path that this machine runs.
VectorPath best_vector_path() noexcept;

}  // namespace penstock

// The CMake option PENSTOCK_SCALAR_ONLY leaves the vector paths out, as on machines that have none.
#if defined(__x86_64__) && !defined(PENSTOCK_SCALAR_ONLY)
#define PENSTOCK_X86_PATHS 1
#define PENSTOCK_TARGET_AVX2 __attribute__((target("avx2")))
#else
#define PENSTOCK_X86_PATHS 0
#endif
