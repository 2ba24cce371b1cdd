#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__) && !defined(PENSTOCK_SCALAR_ONLY)
#define PENSTOCK_KERNEL_STREAMS 1
#include <emmintrin.h>
#else
#define PENSTOCK_KERNEL_STREAMS 0
#endif

// Stores that bypass the caches, for output larger than the caches: the lines written are not read
// from memory first. SSE2 is part of x86-64; on other machines these are plain copies.

namespace penstock::kernel {

/// Bytes of output that are built in cache before they are streamed; well below the first level.
inline constexpr uint32_t kStreamBytes = 8192;

/// Copies to any address. Whole 64-byte lines of the destination are streamed.
inline void stream_out(std::byte* to, const std::byte* from, size_t bytes) noexcept {
#if PENSTOCK_KERNEL_STREAMS
  const size_t head = std::min<size_t>((64 - reinterpret_cast<uintptr_t>(to) % 64) % 64, bytes);
  if (head != 0) std::memcpy(to, from, head);
  size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  if (at != bytes) std::memcpy(to + at, from + at, bytes - at);
#else
  if (bytes != 0) std::memcpy(to, from, bytes);
#endif
}

/// Orders streamed stores before later stores, for other threads.
inline void stream_fence() noexcept {
#if PENSTOCK_KERNEL_STREAMS
  _mm_sfence();
#endif
}

}  // namespace penstock::kernel
