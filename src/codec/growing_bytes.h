#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/memory/buffer.h"

// A buffer that grows as bytes come, for streams that do not say their size or say it in bytes that
// cannot be trusted.

namespace penstock::codec {

/// Memory that is asked for at once because stored bytes claim to need it.
inline constexpr size_t kMostTrustedBytes = size_t{16} << 20;

class GrowingBytes {
 public:
  /// Replaces the contents of `out`. `expected` bytes are a guess.
  GrowingBytes(Buffer& out, size_t expected) : out_(out) {
    constexpr size_t kLeast = 4096;
    out_.resize_discard(std::clamp(expected, kLeast, kMostTrustedBytes));
  }

  /// Free memory behind the bytes so far, never empty.
  std::span<std::byte> room() {
    if (size_ == out_.size()) {
      Buffer larger(2 * size_);
      std::memcpy(larger.data(), out_.data(), size_);
      out_ = std::move(larger);
    }
    return out_.span().subspan(size_);
  }

  /// Keeps the first `bytes` of room().
  void add(size_t bytes) noexcept { size_ += bytes; }

  size_t size() const noexcept { return size_; }

  /// Makes the buffer as large as its bytes. Shrinking keeps them.
  void finish() { out_.resize_discard(size_); }

 private:
  Buffer& out_;
  size_t size_ = 0;
};

}  // namespace penstock::codec
