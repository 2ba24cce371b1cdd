#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "codec/vlen_utf8.h"
#include "format/chunked/array.h"
#include "format/chunked/chunk_grid.h"
#include "format/chunked/fixed_strings.h"
#include "format/chunked/read_array.h"

// Reads whole arrays of any number of dimensions, chunk by chunk, the plain way. For tests only.

namespace penstock::format::chunked {

/// Calls take(cell in C order of the array, cell in the chunk) for the cells of a chunk that are in
/// the array.
template <typename Take>
void for_each_cell(const ArrayInfo& info, uint64_t chunk, Take&& take) {
  const ChunkGrid grid(info);
  std::vector<uint64_t> position(grid.dimensions());
  grid.position_of(chunk, position);
  for (uint64_t inner = 0; inner < info.chunk_cells(); ++inner) {
    uint64_t rest = inner;
    uint64_t cell = 0;
    uint64_t stride = 1;
    bool inside = true;
    for (size_t d = position.size(); d-- > 0;) {
      const uint64_t at = position[d] * info.chunk_shape[d] + rest % info.chunk_shape[d];
      rest /= info.chunk_shape[d];
      inside = inside && at < info.shape[d];
      cell += at * stride;
      stride *= info.shape[d];
    }
    if (inside) take(cell, inner);
  }
}

/// All cells of fixed size in C order, in stored byte order turned to little-endian.
inline std::vector<std::byte> whole_values(const Array& array) {
  const ArrayInfo& info = array.info();
  std::vector<std::byte> cells(info.cells() * info.cell_bytes);
  const size_t number = info.strings == StringForm::kFixedUtf32   ? 4
                        : info.strings == StringForm::kFixedBytes ? 1
                                                                  : info.cell_bytes;
  codec::ChunkScratch scratch;
  for (uint64_t chunk = 0; chunk < info.chunk_count(); ++chunk) {
    const ChunkPlace place = array.places({&chunk, 1}).at(0);
    std::vector<std::byte> decoded(info.decoded_bytes());
    if (place.absent()) {
      for (size_t i = 0; i < decoded.size(); ++i) {
        decoded[i] = info.fill_value[i % info.fill_value.size()];
      }
    } else {
      Buffer stored(place.length);
      array.store().read(place.path, place.offset, stored.span());
      info.pipeline.decode(stored.span(), place.skipped_filters, decoded, scratch);
      for (size_t i = 0; info.big_endian && i < decoded.size(); i += number) {
        std::reverse(decoded.begin() + static_cast<int64_t>(i),
                     decoded.begin() + static_cast<int64_t>(i + number));
      }
    }
    for_each_cell(info, chunk, [&](uint64_t cell, uint64_t inner) {
      std::memcpy(cells.data() + cell * info.cell_bytes, decoded.data() + inner * info.cell_bytes,
                  info.cell_bytes);
    });
  }
  return cells;
}

inline std::vector<std::string> strings_of(const Strings& strings) {
  std::vector<std::string> result;
  const auto* characters = reinterpret_cast<const char*>(strings.characters.data());
  for (size_t i = 0; i + 1 < strings.offsets.size(); ++i) {
    result.emplace_back(characters + strings.offsets[i],
                        strings.offsets[i + 1] - strings.offsets[i]);
  }
  return result;
}

}  // namespace penstock::format::chunked
