#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory/buffer.h"
#include "codec/tile/filter_pipeline.h"

// Cells in other orders of bytes, for the rare cases that no kernel reads in place.

namespace penstock::format::chunked {

/// Writes byte planes as cells of `cell_bytes`, in order.
void unshuffle(const codec::CellBytes& planes, uint32_t cell_bytes, Buffer& out);

/// Writes big-endian cells, plain or as byte planes, as little-endian cells.
void to_little_endian(const codec::CellBytes& cells, uint32_t cell_bytes, Buffer& out);

/// Reverses the bytes of each number of 2, 4 or 8 bytes, in place.
void swap_numbers(std::span<std::byte> bytes, size_t of_number);

}  // namespace penstock::format::chunked
