#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/vector_path.h"

// Checksums of Penstock's own files: CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the
// processor's instruction if it has one, else by tables.
//
// The instruction takes three cycles but can start every cycle, so `lane_checksum` divides bytes
// among four lanes. It takes 0.1 us for a row of 2.3 kB, a third of the plain CRC.

namespace penstock {

/// CRC-32C of the bytes; `seed` is the checksum of the bytes before.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0,
                VectorPath path = best_vector_path()) noexcept;

/// The whole blocks of 32 bytes are cut into words of 8; lane k has words k, k + 4, k + 8, … The
/// result is the CRC-32C of the four lanes' CRC-32Cs (little-endian, 16 bytes) followed by the
/// remaining bytes, fewer than 32.
uint32_t lane_checksum(std::span<const std::byte> bytes,
                       VectorPath path = best_vector_path()) noexcept;

}  // namespace penstock
