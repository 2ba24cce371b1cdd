#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

// Runs body(0) … body(count - 1) on up to `threads` threads that live for the call; for the few
// long jobs of opening an array. The first exception is thrown again here, once all threads have
// ended.

namespace penstock::format::soma {

template <typename Body>
void x_parallel(size_t count, unsigned threads, Body&& body) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(work);
  work();
  others.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace penstock::format::soma
