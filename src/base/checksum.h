#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/vector_path.h"

// Checksums of Penstock's own files: CRC-32C (Castagnoli, RFC 3720 appendix B.4) by the processor's
// instruction where it has one, else by tables.
//
// The instruction takes three cycles and begins one every cycle, so a long run of bytes is divided
// among four lanes: `lane_checksum` is 0.1 us for a row of 2.3 kB, a third of the plain CRC.

namespace penstock {

/// CRC-32C of the bytes; `seed` is the checksum of what came before.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0,
                VectorPath path = best_vector_path()) noexcept;

/// Of the bytes in words of 8 up to the last whole 32, lane k takes words k, k + 4, k + 8, …; the
/// result is the CRC-32C of the four lanes' CRC-32Cs (little-endian, 16 bytes), then of the bytes
/// that are left, fewer than 32.
uint32_t lane_checksum(std::span<const std::byte> bytes,
                       VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock
