#include "format/chunked/swap_bytes.h"

#include <algorithm>
#include <cstring>

namespace penstock::format::chunked {
namespace {

template <typename T>
void swap_each(std::span<std::byte> bytes, T (*swap)(T)) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    value = swap(value);
    std::memcpy(bytes.data() + i, &value, sizeof(T));
  }
}

}  // namespace

void swap_numbers(std::span<std::byte> bytes, size_t of_number) {
  if (of_number == 2) swap_each<uint16_t>(bytes, [](uint16_t v) { return __builtin_bswap16(v); });
  if (of_number == 4) swap_each<uint32_t>(bytes, [](uint32_t v) { return __builtin_bswap32(v); });
  if (of_number == 8) swap_each<uint64_t>(bytes, [](uint64_t v) { return __builtin_bswap64(v); });
}

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
