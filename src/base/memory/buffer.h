#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

// Uninitialized, 64-byte aligned bytes for decode scratch. Growing does not keep the contents.
// std::vector would zero new bytes on every resize.
//
// A large buffer is mapped from the kernel, and its memory returns there when it is freed. glibc
// takes large blocks from the heap once some were freed. There lasting small blocks between them
// keep apart what was freed: units of twenty files left 250 MB of such holes.

namespace penstock {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) { resize_discard(size); }
  ~Buffer() { free(); }
  Buffer(Buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  /// Makes the buffer `size` bytes; contents are undefined afterwards. Shrinking keeps the memory.
  /// Throws std::bad_alloc for impossible sizes, which would wrap round in the alignment.
  void resize_discard(size_t size) {
    reserve_discard(size);
    size_ = size;
  }
  /// Makes room for `capacity` bytes in all; contents are undefined afterwards.
  void reserve_discard(size_t capacity) {
    if (capacity > capacity_) allocate(capacity);
  }

  std::byte* data() noexcept { return bytes_; }
  const std::byte* data() const noexcept { return bytes_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  std::span<std::byte> span() noexcept { return {bytes_, size_}; }
  std::span<const std::byte> span() const noexcept { return {bytes_, size_}; }

  template <typename T>
  std::span<T> as() noexcept {
    return {reinterpret_cast<T*>(bytes_), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const noexcept {
    return {reinterpret_cast<const T*>(bytes_), size_ / sizeof(T)};
  }

 private:
  void allocate(size_t capacity);
  void free() noexcept;

  std::byte* bytes_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace penstock
