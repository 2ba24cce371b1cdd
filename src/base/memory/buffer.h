#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

// Uninitialized, 64-byte aligned bytes for decode scratch. Growing does not keep the contents.
// std::vector would zero new bytes on every resize.

namespace penstock {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) { resize_discard(size); }

  /// Makes the buffer `size` bytes; contents are undefined afterwards. Shrinking keeps the memory.
  /// Throws std::bad_alloc for impossible sizes, which would wrap round in the alignment.
  void resize_discard(size_t size) {
    reserve_discard(size);
    size_ = size;
  }
  /// Makes room for `capacity` bytes in all; contents are undefined afterwards.
  void reserve_discard(size_t capacity) {
    if (capacity <= capacity_) return;
    if (capacity > PTRDIFF_MAX) throw std::bad_alloc();
    bytes_.reset();
    capacity_ = size_ = 0;
    bytes_.reset(new (std::align_val_t{64}) std::byte[capacity]);
    capacity_ = capacity;
  }

  std::byte* data() noexcept { return bytes_.get(); }
  const std::byte* data() const noexcept { return bytes_.get(); }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  std::span<std::byte> span() noexcept { return {bytes_.get(), size_}; }
  std::span<const std::byte> span() const noexcept { return {bytes_.get(), size_}; }

  template <typename T>
  std::span<T> as() noexcept {
    return {reinterpret_cast<T*>(bytes_.get()), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const noexcept {
    return {reinterpret_cast<const T*>(bytes_.get()), size_ / sizeof(T)};
  }

 private:
  struct AlignedDelete {
    void operator()(std::byte* bytes) const noexcept {
      ::operator delete[](bytes, std::align_val_t{64});
    }
  };
  std::unique_ptr<std::byte[], AlignedDelete> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace penstock
