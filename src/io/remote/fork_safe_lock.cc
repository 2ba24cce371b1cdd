#include "io/remote/fork_safe_lock.h"

#include <pthread.h>

namespace penstock::io {

std::mutex& fork_safe_lock() {
  static std::mutex* const lock = [] {
    static auto* const made = new std::mutex;
    ::pthread_atfork([] { made->lock(); }, [] { made->unlock(); }, [] { made->unlock(); });
    return made;
  }();
  return *lock;
}

}  // namespace penstock::io
