#include "base/memory/buffer.h"

#include <sys/mman.h>

#include "base/memory/memory_page.h"

namespace penstock {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Least size of a buffer that is mapped.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMaps = false;  // AddressSanitizer finds reads behind the end of heap blocks alone
#elif defined(__has_feature)
constexpr bool kMaps = !__has_feature(address_sanitizer);
#else
constexpr bool kMaps = true;
#endif
constexpr size_t kMappedBytes = size_t{1} << 20;

bool is_mapped(size_t capacity) noexcept { return kMaps && capacity >= kMappedBytes; }

}  // namespace

void Buffer::allocate(size_t capacity) {
  if (capacity > PTRDIFF_MAX / 2) throw std::bad_alloc();
  free();
  if (!is_mapped(capacity)) {
    bytes_ = new (kAlignment) std::byte[capacity];
  } else {
    capacity = whole_memory_pages(capacity);
    void* const address =
        ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    bytes_ = static_cast<std::byte*>(address);
  }
  capacity_ = capacity;
}

void Buffer::free() noexcept {
  if (is_mapped(capacity_)) {
    ::munmap(bytes_, capacity_);
  } else {
    ::operator delete[](bytes_, kAlignment);
  }
  bytes_ = nullptr;
  size_ = capacity_ = 0;
}

}  // namespace penstock
