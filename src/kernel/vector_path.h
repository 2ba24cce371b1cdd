#pragma once

#include <cstdint>

// The one place where a kernel's instruction set is chosen, at run time. Every kernel has a scalar
// path that is its reference and the only one off x86-64; tests run each path against it.

namespace penstock::kernel {

enum class VectorPath : uint8_t { kScalar, kAvx2 };

/// The fastest path that this machine runs.
VectorPath best_vector_path() noexcept;

}  // namespace penstock::kernel

// PENSTOCK_SCALAR_ONLY leaves the vector paths out, as on machines that have none.
#if defined(__x86_64__) && !defined(PENSTOCK_SCALAR_ONLY)
#define PENSTOCK_KERNEL_AVX2 1
#define PENSTOCK_TARGET_AVX2 __attribute__((target("avx2")))
#else
#define PENSTOCK_KERNEL_AVX2 0
#endif
