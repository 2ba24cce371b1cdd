#pragma once

#include "codec/value_codes.h"

// The AVX2 paths behind narrow.h; only for x86-64 with AVX2. Each works on whole vectors and leaves
// the last values to the scalar path.

namespace penstock::codec::avx2 {

inline constexpr size_t kBlockValues = 32;

/// Codes from value `begin` on, in blocks of 32, up to and with the first block in which values
/// escape. Returns the first value not done; `escaped` gets a bit for each escape of the last block
/// done, 0 when there is none and no whole block is left.
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
