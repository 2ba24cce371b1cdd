#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/memory/buffer.h"
#include "io/range_coalescing.h"

// Bytes that were read before they were requested. A large block is freed once all its bytes were
// returned. Small blocks stay, because metadata is read more than once. The oldest blocks are
// evicted when kRoomBytes is exceeded. Not thread-safe.

namespace penstock::io {

class ReadAhead {
 public:
  static constexpr uint64_t kRoomBytes = uint64_t{256} << 20;
  static constexpr uint64_t kSmallBytes = uint64_t{256} << 10;

  /// Whether a block holds all of the range.
  bool has(const std::string& path, const ByteRange& range) const;
  /// Copies the range if a block holds all of it.
  bool take(const std::string& path, uint64_t offset, std::span<std::byte> out);
  void put(const std::string& path, uint64_t offset, Buffer bytes);
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Block {
    Buffer bytes;
    uint64_t handed_out = 0;
    uint64_t number = 0;  ///< by age
  };
  using Blocks = std::map<uint64_t, Block>;  // by offset

  const std::pair<const uint64_t, Block>* find(const std::string& path,
                                               const ByteRange& range) const;
  void drop(const std::string& path, uint64_t offset);

  std::map<std::string, Blocks> objects_;
  std::map<uint64_t, std::pair<std::string, uint64_t>> by_age_;
  uint64_t next_number_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::io
