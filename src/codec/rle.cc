#include "codec/rle.h"

#include <cstring>

#include "codec/compression.h"

namespace penstock::codec {
namespace {

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  const uint64_t cell = step.cell_bytes;
  const uint64_t run = cell + 2;
  if (cell == 0 || in.size() % run != 0) {
    throw_bad_part(step.config.type, "not a whole number of runs", in.size(), out.size());
  }
  std::byte* to = out.data();
  size_t left = out.size();
  for (const std::byte *from = in.data(), *end = from + in.size(); from != end; from += run) {
    const size_t length =
        std::to_integer<size_t>(from[cell]) << 8 | std::to_integer<size_t>(from[cell + 1]);
    if (length > left / cell) {
      throw_bad_part(step.config.type, "runs are longer than the part", in.size(), out.size());
    }
    if (cell == 1) {
      std::memset(to, std::to_integer<int>(*from), length);
      to += length;
    } else {
      for (size_t i = 0; i < length; ++i, to += cell) std::memcpy(to, from, cell);
    }
    left -= length * cell;
  }
  if (left != 0) {
    throw_bad_part(step.config.type, "runs are shorter than the part", in.size(), out.size());
  }
}

}  // namespace

void decode_rle(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
