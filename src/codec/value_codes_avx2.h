#pragma once

#include "codec/value_codes.h"

// AVX2 paths of value_codes.h, for x86-64 with AVX2 only. Each converts whole vectors; the scalar
// path converts the last values.

namespace penstock::codec::avx2 {

inline constexpr size_t kBlockValues = 32;

/// Converts blocks of 32 values from `begin` on, through the first block with escapes. Returns the
/// first value that was not converted. `escaped` gets a bit for each escape of the last block, or 0
/// if there were none and no whole block is left.
using CodeRun = size_t (*)(const std::byte* in, size_t begin, size_t count, uint8_t* codes,
                           uint32_t& escaped) noexcept;

size_t float32_run(const std::byte* cells, size_t begin, size_t count, uint8_t* codes,
                   uint32_t& escaped) noexcept;
size_t int32_run(const std::byte* cells, size_t begin, size_t count, uint8_t* codes,
                 uint32_t& escaped) noexcept;
size_t int64_run(const std::byte* cells, size_t begin, size_t count, uint8_t* codes,
                 uint32_t& escaped) noexcept;
size_t shuffled_float32_run(const std::byte* planes, size_t begin, size_t count, uint8_t* codes,
                            uint32_t& escaped) noexcept;
size_t shuffled_int32_run(const std::byte* planes, size_t begin, size_t count, uint8_t* codes,
                          uint32_t& escaped) noexcept;
size_t shuffled_int64_run(const std::byte* planes, size_t begin, size_t count, uint8_t* codes,
                          uint32_t& escaped) noexcept;

}  // namespace penstock::codec::avx2
