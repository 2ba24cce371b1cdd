#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::codec {

/// Fletcher's checksum over big-endian words of 16 bits, as HDF5's filter fletcher32 stores it.
/// Source: HDF5, H5_checksum_fletcher32; J. Fletcher, IEEE Trans. Comm. 30 (1982).
uint32_t fletcher32(std::span<const std::byte> bytes) noexcept;

}  // namespace penstock::codec
