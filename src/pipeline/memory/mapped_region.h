#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

// Memory mapped from the kernel, given back whole when the object goes. Untouched pages cost
// nothing, so that a region may be as large as the budget allows before it is known what is needed.

namespace penstock::pipeline {

class MappedRegion {
 public:
  MappedRegion() = default;
  ~MappedRegion() { reset(); }
  MappedRegion(MappedRegion&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedRegion& operator=(MappedRegion&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  /// Zero-filled memory. Throws ResourceExhausted when the system has no addresses or memory left.
  static MappedRegion anonymous(size_t bytes);
  /// The same, 2 MiB aligned and advised for huge pages when it is that large: for what is streamed
  /// through again and again. Not for what is touched once: on virtual machines whose host takes
  /// free memory back, a new huge page was seen to cost 2 ms (2 s a GB, against 0.4 in small ones).
  static MappedRegion huge(size_t bytes);
  /// `bytes` of a file from `offset` on, shared with it. Throws ResourceExhausted.
  static MappedRegion of_file(int descriptor, uint64_t offset, size_t bytes);

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool contains(const std::byte* address) const noexcept {
    return address >= data_ && address < data_ + size_;
  }

 private:
  void reset() noexcept;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Has the system back whole system pages with memory now, all in one call: a fifth less time than
/// one fault for each. Where it cannot (Linux before 5.14), they come one by one when written.
void make_resident(std::byte* data, size_t bytes) noexcept;

/// Takes the memory of whole system pages out of the process; a file's contents stay.
void drop_resident(std::byte* data, size_t bytes) noexcept;

}  // namespace penstock::pipeline
