#include "pipeline/memory/batch_pool.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/memory/memory_page.h"

namespace penstock::pipeline {

BatchPool::BatchPool(uint64_t limit_bytes, std::shared_ptr<MemoryMeter> meter)
    : limit_bytes_(limit_bytes), process_id_(::getpid()), meter_(std::move(meter)) {}

BatchPool::~BatchPool() { meter_->subtract(mapped_bytes_); }

// Batches of one loader differ by some per cent. With an eighth to spare, most blocks fit the next
// batch.
size_t BatchPool::block_bytes(size_t bytes) noexcept {
  const size_t step = std::max<size_t>(4096, std::min<size_t>(bytes / 8, size_t{1} << 20));
  return whole_memory_pages((bytes / step + 1) * step);
}

struct BatchPool::Owner {
  std::shared_ptr<BatchPool> pool;
  MappedRegion region;
  ~Owner() { pool->give_back(std::move(region)); }
};

bool BatchPool::reserve(size_t bytes, bool force) {
  const MutexLock lock(mutex_);
  const size_t wanted = block_bytes(bytes);
  if (!force && used_bytes_ + wanted > limit_bytes_) return false;
  used_bytes_ += wanted;
  return true;
}

BatchPool::Block BatchPool::take(size_t bytes) {
  const size_t wanted = block_bytes(bytes);
  MappedRegion region = take_idle(bytes, wanted);
  if (region.data() == nullptr) {
    region = MappedRegion::huge(wanted);
    meter_->add(wanted);
    const MutexLock lock(mutex_);
    mapped_bytes_ += wanted;
  }
  Block block{region.data(), region.size(), nullptr};
  block.owner = std::shared_ptr<Owner>(new Owner{shared_from_this(), std::move(region)});
  return block;
}

// Returns the smallest idle block that fits without too much waste. If there is none, frees idle
// blocks until a new block fits and returns an empty one.
MappedRegion BatchPool::take_idle(size_t bytes, size_t wanted) {
  std::vector<MappedRegion> freed;  // declared before the lock: unmapped after it
  const MutexLock lock(mutex_);
  auto best = idle_.end();
  for (auto at = idle_.begin(); at != idle_.end(); ++at) {
    const bool fits = at->size() >= bytes && at->size() / 2 <= wanted;
    if (fits && (best == idle_.end() || at->size() < best->size())) best = at;
  }
  MappedRegion region;
  if (best != idle_.end()) {
    region = std::move(*best);
    idle_.erase(best);
    used_bytes_ += region.size() - wanted;
    return region;
  }
  while (!idle_.empty() && mapped_bytes_ + wanted > limit_bytes_) {
    mapped_bytes_ -= idle_.back().size();
    meter_->subtract(idle_.back().size());
    freed.push_back(std::move(idle_.back()));
    idle_.pop_back();
  }
  return region;
}

void BatchPool::give_back(MappedRegion region) {
  if (::getpid() != process_id_) return;
  {
    const MutexLock lock(mutex_);
    used_bytes_ -= region.size();
    if (closed_ || mapped_bytes_ > limit_bytes_) {
      mapped_bytes_ -= region.size();
      meter_->subtract(region.size());
    } else {
      idle_.push_back(std::move(region));
    }
  }
  const MutexLock lock(release_mutex_);
  if (on_release_) on_release_();
}

void BatchPool::close() {
  std::vector<MappedRegion> freed;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    freed.swap(idle_);
    for (const MappedRegion& region : freed) {
      mapped_bytes_ -= region.size();
      meter_->subtract(region.size());
    }
  }
  set_on_release(nullptr);
}

void BatchPool::set_on_release(std::function<void()> on_release) {
  const MutexLock lock(release_mutex_);
  on_release_ = std::move(on_release);
}

}  // namespace penstock::pipeline
