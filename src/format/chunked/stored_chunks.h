#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"
#include "io/store.h"

// Stored bytes of chunks, read together. Chunks that lie near one another in an object become one
// read, by the options of the store.

namespace penstock::format::chunked {

/// Part of an object that is wanted. An empty path: nothing.
struct WantedBytes {
  const std::string* path = nullptr;
  io::ByteRange range;
};

class StoredChunks {
 public:
  /// Reads all of `wanted`, at once where the store can.
  StoredChunks(const io::Store& store, std::span<const WantedBytes> wanted);

  /// Bytes of wanted[i], as a view; empty if nothing was wanted.
  std::span<const std::byte> bytes(size_t i) const noexcept { return views_[i]; }
  size_t read_count() const noexcept { return reads_.size(); }

 private:
  std::vector<Buffer> reads_;
  std::vector<std::span<const std::byte>> views_;
};

}  // namespace penstock::format::chunked
