#include "format/chunked/swap_bytes.h"

#include <algorithm>
#include <cstring>

namespace penstock::format::chunked {

void unshuffle(const codec::CellBytes& planes, uint32_t cell_bytes, Buffer& out) {
  out.resize_discard(planes.bytes.size());
  const size_t count = planes.bytes.size() / cell_bytes;
  for (uint32_t k = 0; k < cell_bytes; ++k) {
    const std::byte* const plane = planes.bytes.data() + k * count;
    for (size_t i = 0; i < count; ++i) out.data()[i * cell_bytes + k] = plane[i];
  }
}

void to_little_endian(const codec::CellBytes& cells, uint32_t cell_bytes, Buffer& out) {
  if (cells.shuffled) {
    unshuffle(cells, cell_bytes, out);
  } else {
    out.resize_discard(cells.bytes.size());
    if (!cells.bytes.empty()) std::memcpy(out.data(), cells.bytes.data(), cells.bytes.size());
  }
  for (size_t i = 0; i + cell_bytes <= out.size(); i += cell_bytes) {
    std::reverse(out.data() + i, out.data() + i + cell_bytes);
  }
}

}  // namespace penstock::format::chunked
