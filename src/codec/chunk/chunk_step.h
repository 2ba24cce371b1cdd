#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/memory/buffer.h"
#include "codec/chunk/chunk_pipeline.h"

// One filter of a ChunkPipeline in reverse. `work` is memory for what lies between the stored bytes
// and the result of a filter. All throw `CorruptData`, with the filter and the place in the chunk.

namespace penstock::codec {

std::string_view name_of(ChunkFilterType type) noexcept;

/// Whether the filter adds a checksum behind the bytes and leaves them as they are.
bool is_checksum(ChunkFilterType type) noexcept;

/// Most bytes that `stored` bytes can decode to. UINT64_MAX: too many to count.
uint64_t most_decoded_bytes(ChunkFilterType type, uint64_t stored) noexcept;

/// Number of bytes that the filter makes of `decoded` bytes when it writes. Nothing if that depends
/// on the bytes.
std::optional<uint64_t> stored_bytes(ChunkFilterType type, uint64_t decoded) noexcept;

/// Decodes to exactly out.size() bytes.
void undo_sized(const ChunkFilter& filter, std::span<const std::byte> stored,
                std::span<std::byte> out, Buffer& work);

/// Decodes to as many bytes as there are, at most `most`. The result lies in `out` or in `stored`.
std::span<const std::byte> undo_unsized(const ChunkFilter& filter,
                                        std::span<const std::byte> stored, uint64_t most,
                                        Buffer& out, Buffer& work);

}  // namespace penstock::codec
