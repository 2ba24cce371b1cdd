#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cancellation.h"

// Loops over independent items on threads that live for one call (about 20 us each), for opening
// and for tables; the pipeline that streams cells has its own.
//
// Items are taken one at a time, so that uneven ones balance. After the first error no further item
// is begun; it is thrown again by parallel_for when all threads have ended. Between items the
// calling thread lets the wait hook look (base/cancellation.h), whose error counts as an item's.

namespace penstock {

/// Threads that `asked` means: 0 is as many as cores.
inline unsigned thread_count(unsigned asked) {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

/// Calls body(i) for i in [0, count), on up to `threads` threads, the caller's among them.
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
  std::mutex mutex;
  std::exception_ptr error;  // guarded by mutex
  const auto work = [&](bool of_caller) noexcept {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      try {
        if (of_caller) poll_wait_hook();
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  };
  std::vector<std::thread> others;
  others.reserve(workers - 1);
  try {
    for (size_t i = 0; i + 1 < workers; ++i) others.emplace_back(work, false);
  } catch (...) {
    // No more threads to be had: those that there are do the work.
  }
  work(true);
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace penstock
