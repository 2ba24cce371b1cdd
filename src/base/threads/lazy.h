#pragma once

#include <optional>

#include "base/threads/mutex.h"

namespace penstock {

/// A value that is made on first use, by any thread. If making it throws, the caller gets the
/// error, and the next call tries again. std::call_once should do the same, but after an error it
/// waits for ever with some pthread libraries and under ThreadSanitizer.
template <typename T>
class Lazy {
 public:
  template <typename Make>
  const T& get(const Make& make) const {
    const MutexLock lock(mutex_);
    if (!value_) value_.emplace(make());
    return *value_;
  }

 private:
  mutable Mutex mutex_;
  mutable std::optional<T> value_ PENSTOCK_GUARDED_BY(mutex_);  // never changed again
};

}  // namespace penstock
