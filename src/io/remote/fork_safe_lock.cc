#include "io/remote/fork_safe_lock.h"

#include <pthread.h>

namespace penstock::io {
namespace {

void before_fork() PENSTOCK_ACQUIRE(fork_safe_lock()) { fork_safe_lock().lock(); }
void after_fork() PENSTOCK_RELEASE(fork_safe_lock()) { fork_safe_lock().unlock(); }

}  // namespace

Mutex& fork_safe_lock() {
  static Mutex* const lock = [] {
    ::pthread_atfork(before_fork, after_fork, after_fork);
    return new Mutex;
  }();
  return *lock;
}

}  // namespace penstock::io
