#include "codec/simd_level.h"

namespace penstock::codec {

SimdLevel best_simd_level() noexcept {
#if defined(__x86_64__)
  static const SimdLevel level =
      __builtin_cpu_supports("avx2") ? SimdLevel::kAvx2 : SimdLevel::kSse2;
  return level;
#else
  return SimdLevel::kScalar;
#endif
}

}  // namespace penstock::codec
