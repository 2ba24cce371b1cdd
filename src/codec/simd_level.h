#pragma once

// Which vector instructions the kernels of this folder may use. Asked once; every kernel has a
// scalar form that gives the same bytes and runs anywhere.

namespace penstock::codec {

enum class SimdLevel { kScalar, kSse2, kAvx2 };

/// The best that this machine has. kScalar on anything but x86-64.
SimdLevel best_simd_level() noexcept;

}  // namespace penstock::codec
