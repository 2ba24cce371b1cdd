#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/filter_pipeline.h"
#include "codec/value_codes.h"

// Stored values of one chunk -> one-byte codes, straight from the byte planes where the type has a
// fused path (float32 and 32- or 64-bit integers).

namespace penstock::format::soma {

/// Escapes of one tile: cells that have no code, ascending, and their values' bytes.
struct XEscapes {
  std::vector<uint32_t> cells;
  std::vector<std::byte> values;
  codec::Escapes<uint32_t> chunk32;  // of the chunk at work
  codec::Escapes<uint64_t> chunk64;

  void clear() {
    cells.clear();
    values.clear();
  }
};

/// Whether code_values takes byte planes of this type.
bool codes_from_planes(DataType type) noexcept;

/// Codes of the chunk's `count` values to `codes`; escapes are appended, numbered from
/// `first_cell`. False when there are more than `max_escapes`; then nothing is appended and `codes`
/// are undefined.
bool code_values(DataType type, const codec::CellBytes& values, size_t count, uint32_t first_cell,
                 size_t max_escapes, uint8_t* codes, XEscapes& escapes);

}  // namespace penstock::format::soma
