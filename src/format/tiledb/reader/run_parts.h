#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/threads/mutex.h"

namespace penstock::format::tiledb {

/// What ArrayReader::read_runs gives, in the order of runs whichever thread reads them first.
template <typename Part>
class RunParts {
 public:
  void put(size_t run, Part part) {
    const MutexLock lock(mutex_);
    parts_.emplace(run, std::move(part));
  }
  /// After read_runs has returned.
  std::vector<Part> take() {
    const MutexLock lock(mutex_);
    std::vector<Part> parts;
    parts.reserve(parts_.size());
    for (auto& [run, part] : parts_) parts.push_back(std::move(part));
    parts_.clear();
    return parts;
  }

 private:
  Mutex mutex_;
  std::multimap<size_t, Part> parts_ PENSTOCK_GUARDED_BY(mutex_);  // by run
};

}  // namespace penstock::format::tiledb
