#pragma once

#include <mutex>
#include <optional>

namespace penstock {

/// A value that is made when it is first asked for, by any thread. An error of making it is the
/// asker's, and the next one tries again: std::call_once, which should do that too, waits for ever
/// then under some pthread libraries and under ThreadSanitizer.
template <typename T>
class Lazy {
 public:
  template <typename Make>
  const T& get(const Make& make) const {
    const std::lock_guard lock(mutex_);
    if (!value_) value_.emplace(make());
    return *value_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::optional<T> value_;  // never changed again
};

}  // namespace penstock
