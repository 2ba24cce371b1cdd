#include "base/threads/cancellation.h"

#include <chrono>
#include <utility>

namespace penstock {
namespace {

thread_local const std::atomic<bool>* current_flag = nullptr;

std::function<void()>& wait_hook() {
  static std::function<void()> hook;
  return hook;
}

}  // namespace

CancelScope::CancelScope(const std::atomic<bool>* flag) noexcept : before_(current_flag) {
  current_flag = flag;
}

CancelScope::~CancelScope() { current_flag = before_; }

bool cancel_requested() noexcept {
  return current_flag != nullptr && current_flag->load(std::memory_order_relaxed);
}

void run_wait_hook() {
  if (current_flag == nullptr && wait_hook()) wait_hook()();
}

void poll_wait_hook() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(50);
  thread_local Clock::time_point last = Clock::now();
  const auto now = Clock::now();
  if (now - last < kInterval) return;
  last = now;
  run_wait_hook();
}

void set_wait_hook(std::function<void()> hook) { wait_hook() = std::move(hook); }

}  // namespace penstock
