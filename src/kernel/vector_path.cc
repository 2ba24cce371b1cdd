#include "kernel/vector_path.h"

namespace penstock::kernel {

VectorPath best_vector_path() noexcept {
#if PENSTOCK_KERNEL_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return VectorPath::kAvx2;
#endif
  return VectorPath::kScalar;
}

}  // namespace penstock::kernel
