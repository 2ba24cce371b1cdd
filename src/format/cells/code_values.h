#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/tile/filter_pipeline.h"
#include "codec/value_codes.h"

// Stored values of one chunk -> one-byte codes. Types with a fused path (float32 and 32- or 64-bit
// integers) are coded straight from the byte planes.

namespace penstock::format {

/// Escapes of one tile: the cells without a code, ascending, and the bytes of their values.
struct CellEscapes {
  std::vector<uint32_t> cells;
  std::vector<std::byte> values;
  codec::Escapes<uint32_t> chunk32;  // of the current chunk
  codec::Escapes<uint64_t> chunk64;

  void clear() {
    cells.clear();
    values.clear();
  }
};

/// Whether code_values accepts byte planes of this type.
bool codes_from_planes(DataType type) noexcept;

/// Writes the codes of the chunk's `count` values to `codes` and appends escapes, numbered from
/// `first_cell`. Returns false if there are more than `max_escapes`; then nothing is appended and
/// `codes` is undefined.
bool code_values(DataType type, const codec::CellBytes& values, size_t count, uint32_t first_cell,
                 size_t max_escapes, uint8_t* codes, CellEscapes& escapes);

}  // namespace penstock::format
