#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

// Memory mapped from the kernel and returned when the object is destroyed. Untouched pages cost
// nothing, so a region may be as large as the budget allows before the need is known.

namespace penstock {

class MappedRegion {
 public:
  MappedRegion() = default;
  ~MappedRegion() { reset(); }
  MappedRegion(MappedRegion&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        tries_huge_(other.tries_huge_.load()) {}
  MappedRegion& operator=(MappedRegion&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      tries_huge_ = other.tries_huge_.load();
    }
    return *this;
  }

  /// Zero-filled memory. Throws ResourceExhausted if the system has no addresses or memory left.
  static MappedRegion anonymous(size_t bytes);
  /// The same, but 2 MiB aligned and advised for huge pages if it is that large: for memory that is
  /// streamed through again and again.
  static MappedRegion huge(size_t bytes);
  /// The same for memory that is filled once, by make_resident() piece by piece. 1.5 GB took 0.07 s
  /// in huge pages and 0.45 s in small ones. But on a virtual machine whose host had no memory for
  /// them yet, it took 3.5 s. So after a slow huge page, the rest of the region and the next
  /// regions have small ones.
  static MappedRegion filled_once(size_t bytes);
  /// Zero-filled memory of which parts stay untouched: never in huge pages, which would take all.
  static MappedRegion sparse(size_t bytes);
  /// Maps `bytes` of a file from `offset` on, shared with it. Throws ResourceExhausted.
  static MappedRegion of_file(int descriptor, uint64_t offset, size_t bytes);

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool contains(const std::byte* address) const noexcept {
    return address >= data_ && address < data_ + size_;
  }

  /// Makes the system back whole pages with memory now, in one call: a fifth less time than one
  /// fault for each. If it cannot (Linux before 5.14), pages are backed one by one when written.
  /// Any thread.
  void make_resident(std::byte* begin, size_t bytes) const noexcept;

  /// No more huge pages from now on: for a region of which parts are dropped, since a huge page
  /// keeps its memory when a part of it is.
  void use_small_pages() const noexcept;

 private:
  void reset() noexcept;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  mutable std::atomic<bool> tries_huge_{false};
};

/// Removes the memory of whole system pages from the process. A file's contents stay.
void drop_resident(std::byte* data, size_t bytes) noexcept;

}  // namespace penstock
