#include "base/mapped_region.h"

#include <penstock/error.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/concat.h"
#include "base/memory_page.h"

namespace penstock {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

[[noreturn]] void fail(size_t bytes) {
  throw ResourceExhausted(
      concat("cannot map memory: ", std::strerror(errno), ", ", bytes, " bytes"));
}

}  // namespace

MappedRegion MappedRegion::anonymous(size_t bytes) {
  MappedRegion region;
  if (bytes == 0) return region;
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) fail(bytes);
  region.data_ = static_cast<std::byte*>(address);
  region.size_ = bytes;
  return region;
}

MappedRegion MappedRegion::huge(size_t bytes) {
  if (bytes < kHugePage) return anonymous(bytes);
  MappedRegion region = anonymous(bytes + kHugePage);
  auto* const begin = region.data_;
  const size_t misaligned = reinterpret_cast<uintptr_t>(begin) % kHugePage;
  const size_t head = misaligned == 0 ? 0 : kHugePage - misaligned;
  // Unmap the ends that alignment leaves.
  const size_t kept = whole_memory_pages(bytes);
  const size_t tail = region.size_ - head - kept;
  if (head != 0) ::munmap(begin, head);
  if (tail != 0) ::munmap(begin + head + kept, tail);
  region.data_ = begin + head;
  region.size_ = bytes;
  ::madvise(region.data_, kept, MADV_HUGEPAGE);  // advice only: without them it is just slower
  return region;
}

MappedRegion MappedRegion::of_file(int descriptor, uint64_t offset, size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                               static_cast<off_t>(offset));
  if (address == MAP_FAILED) fail(bytes);
  MappedRegion region;
  region.data_ = static_cast<std::byte*>(address);
  region.size_ = bytes;
  return region;
}

void MappedRegion::reset() noexcept {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

void make_resident(std::byte* data, size_t bytes) noexcept {
#if defined(MADV_POPULATE_WRITE)
  ::madvise(data, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

void drop_resident(std::byte* data, size_t bytes) noexcept {
  const auto begin = whole_memory_pages(reinterpret_cast<uintptr_t>(data));
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(memory_page_bytes() - 1);
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace penstock
