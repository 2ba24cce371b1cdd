#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/threads/mutex.h"

namespace penstock::format {

/// The readers of the last two choices of columns, so that the next epoch does not measure the
/// store again: two, since a cache reads all columns beside the chosen ones. A forked child makes
/// its own: a lock of the parent's may be held for ever. `Reader` has columns().
template <typename Reader>
class RecentReaders {
 public:
  template <typename Make>
  std::shared_ptr<const Reader> get(std::span<const int64_t> columns, Make&& make) const {
    if (process_id_ != ::getpid()) return make();
    if (auto same = find(columns)) return same;
    std::shared_ptr<const Reader> made = make();
    const MutexLock lock(mutex_);
    std::swap(recent_.front(), recent_.back());
    recent_.front() = made;
    return made;
  }

 private:
  std::shared_ptr<const Reader> find(std::span<const int64_t> columns) const {
    const MutexLock lock(mutex_);
    for (const auto& reader : recent_) {
      if (reader != nullptr && std::ranges::equal(reader->columns(), columns)) return reader;
    }
    return nullptr;
  }

  const int process_id_ = ::getpid();
  mutable Mutex mutex_;
  mutable std::array<std::shared_ptr<const Reader>, 2> recent_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format
