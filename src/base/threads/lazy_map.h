#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/threads/mutex.h"

namespace penstock {

/// Values by name, each made on first use, by any thread. Several values may be made at once. If
/// two threads make the same value, both get the one that is ready first. If making it throws, the
/// caller gets the error, and the next call tries again.
template <typename T>
class LazyMap {
 public:
  using Pointer = std::shared_ptr<const T>;

  template <typename Make>
  Pointer get(const std::string& name, const Make& make) const {
    {
      const MutexLock lock(mutex_);
      const auto found = values_.find(name);
      if (found != values_.end()) return found->second;
    }
    Pointer made = make();
    const MutexLock lock(mutex_);
    return values_.try_emplace(name, std::move(made)).first->second;
  }

 private:
  mutable Mutex mutex_;
  mutable std::map<std::string, Pointer> values_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
