#pragma once

#include <penstock/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/tile/filter_pipeline.h"

// Fuzz targets only. An input is
//
//   uint8 data type | uint8 flags | uint16 strings | stored tile
//
// decoded by a pipeline of the target's one filter. A decode may throw only penstock::Error.
// tests/golden/make_fuzz_corpus.py makes the first inputs from the golden tiles.

namespace penstock::codec {

inline constexpr uint64_t kMostFuzzedBytes = 1 << 20;

inline void fuzz_decode(const FilterPipeline& pipeline, DataType type, uint32_t format_version,
                        uint64_t cell_bytes, uint64_t strings, std::span<const std::byte> stored) {
  thread_local DecodeScratch scratch;
  thread_local Buffer out;
  thread_local std::vector<uint64_t> offsets;
  try {
    const uint64_t bytes = pipeline.decoded_bytes(stored);
    if (bytes > kMostFuzzedBytes) return;
    out.resize_discard(bytes);
    pipeline.decode(stored, type, format_version, out.span(), scratch, cell_bytes);
  } catch (const Error&) {
  }
  try {
    for (const Chunk& chunk : split_chunks(stored)) {
      if (chunk.original_bytes > kMostFuzzedBytes) return;
      pipeline.decode_chunk_planes(chunk, type, format_version, scratch);
    }
  } catch (const Error&) {
  }
  try {
    if (pipeline.stores_string_offsets(type, true)) {
      const auto chunks = split_chunks(stored);
      const uint64_t characters = chunks.empty() ? 0 : chunks[0].original_bytes;
      if (characters > kMostFuzzedBytes) return;
      pipeline.decode_strings(stored, type, format_version, out, offsets, scratch,
                              {strings, characters});
      uint64_t last = 0;
      for (const uint64_t offset : offsets) {
        if (offset < last || offset > out.size()) __builtin_trap();
        last = offset;
      }
    }
  } catch (const Error&) {
  }
}

inline int fuzz_filter(FilterType type, const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  FilterConfig filter;
  filter.type = type;
  filter.byte_width = uint64_t{1} << (data[1] & 3);
  filter.scale = 0.5;
  const uint32_t format_version = (data[1] & 4) != 0 ? 18 : 22;
  const auto cell_type = static_cast<DataType>(data[0] % (kLastDataType + 1));
  const uint64_t cell_bytes = size_of(cell_type) * (1 + ((data[1] >> 3) & 3));
  if ((data[1] & 32) != 0) filter.reinterpret_type = DataType::kInt64;
  const uint64_t strings = data[2] | uint64_t{data[3]} << 8;
  fuzz_decode(FilterPipeline({filter}, 65536), cell_type, format_version, cell_bytes, strings,
              std::as_bytes(std::span(data + 4, size - 4)));
  return 0;
}

}  // namespace penstock::codec
