#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/cancellation.h"
#include "base/threads/mutex.h"

// Loops over independent items on threads that live for one call (about 20 us each), for opening
// and for tables. The pipeline that streams cells has its own threads.
//
// Threads take one item at a time, so uneven items balance. After the first error no further item
// starts, and waits of other threads for a network end; parallel_for rethrows the error when all
// threads have ended. Between items, and while it waits for the threads, the calling thread calls
// the wait hook (base/threads/cancellation.h); its error counts as an item's.

namespace penstock {

/// Number of threads for `asked`; 0: as many as cores.
inline unsigned thread_count(unsigned asked) {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

/// The first error of several threads.
class FirstError {
 public:
  void keep(std::exception_ptr error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr error_ PENSTOCK_GUARDED_BY(mutex_);
};

/// Counts threads until they are done.
class Running {
 public:
  void add() {
    const MutexLock lock(mutex_);
    ++count_;
  }
  void remove() {
    const MutexLock lock(mutex_);
    if (--count_ == 0) done_.notify_all();
  }
  /// Whether all are done, after a tenth of a second at most.
  bool wait_a_moment() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    const MutexLock lock(mutex_);
    while (count_ != 0) {
      if (!done_.wait_until(mutex_, end)) break;
    }
    return count_ == 0;
  }

 private:
  Mutex mutex_;
  ConditionVariable done_;
  size_t count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

/// Calls body(i) for i in [0, count) on up to `threads` threads, including the caller's.
template <typename Body>
void parallel_for(size_t count, unsigned threads, Body&& body) {
  const size_t workers = std::min<size_t>(thread_count(threads), count);
  if (workers <= 1) {
    for (size_t i = 0; i < count; ++i) {
      poll_wait_hook();
      body(i);
    }
    return;
  }
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  FirstError error;
  const auto stop = [&](std::exception_ptr first) noexcept {
    error.keep(std::move(first));
    next.store(count, std::memory_order_relaxed);
    stopped.store(true, std::memory_order_relaxed);
  };
  const auto work = [&](bool of_caller) noexcept {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      try {
        if (of_caller) poll_wait_hook();
        body(i);
      } catch (...) {
        stop(std::current_exception());
      }
    }
  };
  const CancelScope* const of_caller = CancelScope::current();
  Running running;
  std::vector<std::thread> others;
  others.reserve(workers - 1);
  try {
    for (size_t i = 0; i + 1 < workers; ++i) {
      running.add();
      others.emplace_back([&] {
        const CancelScope scope(&stopped, of_caller);
        work(false);
        running.remove();
      });
    }
  } catch (...) {
    running.remove();  // no more threads can start: the existing ones do the work
  }
  work(true);
  while (!running.wait_a_moment()) {
    try {
      poll_wait_hook();
    } catch (...) {
      stop(std::current_exception());
    }
  }
  for (std::thread& thread : others) thread.join();
  error.rethrow();
}

}  // namespace penstock
