#pragma once

#include <penstock/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/chunk/chunk_pipeline.h"
#include "codec/chunk/chunk_stream.h"

// Fuzz targets only. A decode may throw only penstock::Error; all ways to decode a chunk that is
// accepted must give the same bytes. tests/golden/make_fuzz_corpus.py makes the first inputs from
// the golden chunks.

namespace penstock::codec {

struct FuzzedPart {
  uint32_t skipped = 0;
  uint64_t decoded_bytes = 0;
  uint32_t cell_bytes = 1;
  uint16_t begin = 0;  ///< in 65,535ths of the cells
  uint16_t end = 0;
};

inline void fuzz_parts(const ChunkPipeline& pipeline, const FuzzedPart& part,
                       std::span<const std::byte> stored, const std::vector<std::byte>* expected) {
  static ChunkScratch scratch;
  const uint32_t width = part.cell_bytes;
  const uint64_t cells = part.decoded_bytes / width;
  const uint64_t begin = std::min(part.begin, part.end) * cells / 65535 * width;
  const uint64_t end = std::max(part.begin, part.end) * cells / 65535 * width;
  uint64_t done = begin;
  try {
    pipeline.decode_parts(
        stored, part.skipped, part.decoded_bytes, width, begin, end, scratch,
        [&](uint64_t first, const CellBytes& piece) {
          const size_t bytes = piece.bytes.size();
          if (first != done || bytes == 0 || bytes % width != 0 || bytes > end - done) {
            __builtin_trap();
          }
          const size_t count = bytes / width;
          for (size_t i = 0; i < bytes && expected != nullptr; ++i) {
            const size_t at = piece.shuffled ? i % width * count + i / width : i;
            if (piece.bytes[at] != (*expected)[first + i]) __builtin_trap();
          }
          done += bytes;
        });
    if (done != end) __builtin_trap();
  } catch (const Error&) {
    if (expected != nullptr) __builtin_trap();
  }
}

/// Where both ways accept a chunk, they give the same bytes.
inline void fuzz_stream(const ChunkPipeline& pipeline, const FuzzedPart& part,
                        std::span<const std::byte> stored, const std::vector<std::byte>* expected) {
  const uint32_t width = part.cell_bytes;
  if (!ChunkStream::decodes(pipeline, width) || part.decoded_bytes % width != 0) return;
  const auto read = [&](uint64_t offset, std::span<std::byte> out) {
    if (offset > stored.size() || out.size() > stored.size() - offset) __builtin_trap();
    std::copy_n(stored.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  };
  // Some cells are skipped.
  const uint64_t cells = part.decoded_bytes / width;
  const uint64_t begin = std::min(part.begin, part.end) * cells / 65535 * width;
  const uint64_t end = std::max(part.begin, part.end) * cells / 65535 * width;
  try {
    ChunkStream stream(pipeline, {stored.size(), part.decoded_bytes, part.skipped}, width, read);
    std::vector<std::byte> got(part.decoded_bytes);
    const std::span all(got);
    stream.next(all.first(begin));
    stream.skip(end - begin);
    stream.next(all.subspan(end));
    if (stream.left() != 0) __builtin_trap();
    for (uint64_t i = 0; i < got.size() && expected != nullptr; ++i) {
      if ((i < begin || i >= end) && got[i] != (*expected)[i]) __builtin_trap();
    }
  } catch (const Error&) {
    if (expected != nullptr) __builtin_trap();
  }
}

inline void fuzz_chunk(const ChunkPipeline& pipeline, const FuzzedPart& part,
                       std::span<const uint8_t> input) {
  constexpr uint64_t kMostSized = 1 << 20;
  constexpr uint64_t kMostUnsized = 64 << 20;
  static ChunkScratch scratch;
  // A copy of the exact length, so that a read outside it is found.
  const std::vector<uint8_t> copy(input.begin(), input.end());
  const auto stored = std::as_bytes(std::span(copy));
  if (part.decoded_bytes <= kMostSized) {
    std::vector<std::byte> cells(part.decoded_bytes);
    bool decoded = false;
    try {
      pipeline.decode(stored, part.skipped, cells, scratch);
      decoded = true;
    } catch (const Error&) {
    }
    fuzz_parts(pipeline, part, stored, decoded ? &cells : nullptr);
    fuzz_stream(pipeline, part, stored, decoded ? &cells : nullptr);
  }
  if (pipeline.most_decoded_bytes(stored.size()) <= kMostUnsized) {
    Buffer unsized;
    std::vector<std::byte> again;
    try {
      pipeline.decode_unsized(stored, part.skipped, kMostUnsized, unsized, scratch);
    } catch (const Error&) {
      return;
    }
    if (unsized.size() > pipeline.most_decoded_bytes(stored.size())) __builtin_trap();
    again.resize(unsized.size());
    try {
      pipeline.decode(stored, part.skipped, again, scratch);
    } catch (const Error&) {
      __builtin_trap();
    }
    if (!std::equal(again.begin(), again.end(), unsized.span().begin())) __builtin_trap();
  }
}

}  // namespace penstock::codec
