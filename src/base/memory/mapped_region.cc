#include "base/memory/mapped_region.h"

#include <penstock/error.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/concat.h"
#include "base/memory/memory_page.h"

namespace penstock {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Least size at which the end without a huge page does not matter.
constexpr size_t kTryHuge = 2 * kHugePage;
/// Seconds of a thread for one huge page. As 512 small ones it takes 600 us.
constexpr double kSlowHugePage = 400e-6;
constexpr uint32_t kMostSkipped = 64;

/// Regions that do without huge pages, because one was slow; more each time.
std::atomic<uint32_t> regions_to_skip{0};
std::atomic<uint32_t> next_to_skip{1};

bool skips_huge() noexcept {
  uint32_t left = regions_to_skip;
  while (left != 0 && !regions_to_skip.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

void was_slow() noexcept {
  const uint32_t skip = next_to_skip;
  regions_to_skip = skip;
  next_to_skip = std::min(2 * skip, kMostSkipped);
}

double thread_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

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

MappedRegion MappedRegion::filled_once(size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  if (bytes >= kTryHuge && !skips_huge()) {
    MappedRegion region = huge(bytes);
    region.tries_huge_ = true;
    return region;
  }
#endif
  return anonymous(bytes);
}

MappedRegion MappedRegion::sparse(size_t bytes) {
  MappedRegion region = anonymous(bytes);
  if (bytes != 0) ::madvise(region.data_, whole_memory_pages(bytes), MADV_NOHUGEPAGE);
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

void MappedRegion::make_resident(std::byte* begin, size_t bytes) const noexcept {
#if defined(MADV_POPULATE_WRITE)
  const double start = tries_huge_ ? thread_seconds() : 0;
  // Huge pages that are backed when written cannot be timed.
  if (::madvise(begin, bytes, MADV_POPULATE_WRITE) != 0) return use_small_pages();
  if (start == 0) return;
  const size_t pages = bytes / kHugePage + 1;
  if (thread_seconds() - start < kSlowHugePage * static_cast<double>(pages)) return;
  if (!tries_huge_.exchange(false)) return;  // another thread was first
  was_slow();
  const auto address = reinterpret_cast<uintptr_t>(begin) + bytes;
  const auto rest = (address + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = whole_memory_pages(reinterpret_cast<uintptr_t>(data_) + size_);
  if (rest < end) ::madvise(reinterpret_cast<void*>(rest), end - rest, MADV_NOHUGEPAGE);
#else
  static_cast<void>(begin);
  static_cast<void>(bytes);
#endif
}

void MappedRegion::use_small_pages() const noexcept {
  if (tries_huge_.exchange(false)) ::madvise(data_, whole_memory_pages(size_), MADV_NOHUGEPAGE);
}

void drop_resident(std::byte* data, size_t bytes) noexcept {
  const auto begin = whole_memory_pages(reinterpret_cast<uintptr_t>(data));
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(memory_page_bytes() - 1);
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace penstock
