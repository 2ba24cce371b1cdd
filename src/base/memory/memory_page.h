#pragma once

#include <unistd.h>

#include <cstddef>

// Pages of the system's memory: 4 KiB on x86-64; 4, 16 or 64 KiB on arm64. munmap and madvise
// refuse addresses inside a page.

namespace penstock {

inline size_t memory_page_bytes() noexcept {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));  // a power of two
  return bytes;
}

/// `bytes` rounded up to whole pages.
inline size_t whole_memory_pages(size_t bytes) noexcept {
  const size_t last = memory_page_bytes() - 1;
  return (bytes + last) & ~last;
}

}  // namespace penstock
