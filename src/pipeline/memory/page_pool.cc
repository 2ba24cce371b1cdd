#include "pipeline/memory/page_pool.h"

#include <penstock/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/memory/memory_page.h"

namespace penstock::pipeline {
namespace {

/// Spill space is allocated in pieces of this size: few system calls, little waste.
constexpr size_t kSpillStep = size_t{4} << 20;

}  // namespace

PagePool::PagePool(uint64_t capacity_bytes, uint32_t page_bytes, MemoryMeter& meter)
    : page_bytes_(page_bytes),
      capacity_bytes_(capacity_bytes / page_bytes * page_bytes),
      meter_(meter),
      arena_(MappedRegion::filled_once(capacity_bytes_)) {}

PagePool::~PagePool() { meter_.subtract(resident_bytes_); }

std::byte* PagePool::take() {
  std::byte* page = nullptr;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (resident_bytes_ + page_bytes_ <= capacity_bytes_ &&
             (!dropped_.empty() || touched_pages_ * page_bytes_ < capacity_bytes_)) {
    if (!dropped_.empty()) {
      page = dropped_.back();
      dropped_.pop_back();
    } else {
      page = arena_.data() + touched_pages_++ * page_bytes_;
      arena_.make_resident(page, page_bytes_);
    }
    resident_bytes_ += page_bytes_;
    meter_.add(page_bytes_);
  } else if (!spilled_free_.empty()) {
    page = spilled_free_.back();
    spilled_free_.pop_back();
  } else {
    std::byte* const piece = spill(std::max<size_t>(kSpillStep, page_bytes_));
    for (size_t at = page_bytes_; at < kSpillStep; at += page_bytes_) {
      spilled_free_.push_back(piece + at);
    }
    page = piece;
  }
  used_bytes_ += page_bytes_;
  return page;
}

void PagePool::give_back(std::byte* page) {
  used_bytes_ -= page_bytes_;
  if (is_spilled(page)) {
    drop_resident(page, page_bytes_);
    spilled_free_.push_back(page);
  } else {
    free_.push_back(page);
  }
}

PagePool::Large PagePool::take_large(size_t bytes) {
  bytes = whole_memory_pages(bytes);
  release_idle(bytes);
  Large large;
  if (resident_bytes_ + bytes <= capacity_bytes_) {
    large.region = MappedRegion::anonymous(bytes);
    large.data = large.region.data();
    resident_bytes_ += bytes;
    meter_.add(bytes);
  } else {
    for (Large& free : large_spilled_free_) {
      if (free.spilled < bytes) continue;
      large = std::move(free);
      std::swap(free, large_spilled_free_.back());
      large_spilled_free_.pop_back();
      break;
    }
    if (large.data == nullptr) {
      large.data = spill(bytes);
      large.spilled = bytes;
    }
  }
  used_bytes_ += large.region.size() + large.spilled;
  return large;
}

void PagePool::give_back_large(Large large) {
  used_bytes_ -= large.region.size() + large.spilled;
  if (large.spilled != 0) {
    drop_resident(large.data, large.spilled);
    large_spilled_free_.push_back(std::move(large));
    return;
  }
  resident_bytes_ -= large.region.size();
  meter_.subtract(large.region.size());
}

void PagePool::release_idle(uint64_t needed) {
  while (resident_bytes_ + needed > capacity_bytes_ && !free_.empty()) {
    std::byte* const page = free_.back();
    free_.pop_back();
    arena_.use_small_pages();
    drop_resident(page, page_bytes_);
    dropped_.push_back(page);
    resident_bytes_ -= page_bytes_;
    meter_.subtract(page_bytes_);
  }
}

std::byte* PagePool::spill(size_t bytes) {
  return with_place([&] { return spill_.extend(bytes); },
                    [&] {
                      return "a loader whose rows may take " + std::to_string(capacity_bytes_) +
                             " bytes of memory and need " + std::to_string(used_bytes_ + bytes) +
                             " (memory_budget is too small for this data)";
                    });
}

}  // namespace penstock::pipeline
