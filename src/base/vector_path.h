#pragma once

#include <cstdint>

// Chooses the instruction set at run time, for all kernels (codec/, kernel/, format/soma). Every
// kernel has a scalar path, which is its reference and the only one on other machines than x86-64;
// tests compare each path with it. A kernel without a path of some level uses the next lower one.

namespace penstock {

enum class VectorPath : uint8_t { kScalar, kSse2, kAvx2 };

/// The fastest path that this machine runs.
VectorPath best_vector_path() noexcept;

}  // namespace penstock

// The CMake option PENSTOCK_SCALAR_ONLY leaves out the vector paths, as on other machines.
#if defined(__x86_64__) && !defined(PENSTOCK_SCALAR_ONLY)
#define PENSTOCK_X86_PATHS 1
#define PENSTOCK_TARGET_AVX2 __attribute__((target("avx2")))
#else
#define PENSTOCK_X86_PATHS 0
#endif
