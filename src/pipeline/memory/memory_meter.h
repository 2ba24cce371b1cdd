#pragma once

#include <atomic>
#include <cstdint>

// Counts the bytes that a loader holds, and their peak: pages of rows, units in flight, batches.
// Everything that uses the budget is added here. Any thread.

namespace penstock::pipeline {

class MemoryMeter {
 public:
  void add(uint64_t bytes) noexcept {
    const uint64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(uint64_t bytes) noexcept { current_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t current() const noexcept { return current_.load(std::memory_order_relaxed); }
  uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> current_{0};
  std::atomic<uint64_t> peak_{0};
};

}  // namespace penstock::pipeline
