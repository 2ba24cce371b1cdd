#include "base/vector_path.h"

namespace penstock {

VectorPath best_vector_path() noexcept {
#if PENSTOCK_X86_PATHS
  static const VectorPath path =
      __builtin_cpu_supports("avx2") ? VectorPath::kAvx2 : VectorPath::kSse2;
  return path;
#else
  return VectorPath::kScalar;
#endif
}

}  // namespace penstock
