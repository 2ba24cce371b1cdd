#include "base/threads/cancellation.h"

#include <chrono>
#include <utility>

namespace penstock {
namespace {

thread_local const CancelScope* current_scope = nullptr;

std::function<void()>& wait_hook() {
  static std::function<void()> hook;
  return hook;
}

}  // namespace

CancelScope::CancelScope(const std::atomic<bool>* flag) noexcept : CancelScope(flag, nullptr) {}

CancelScope::CancelScope(const std::atomic<bool>* flag, const CancelScope* other) noexcept
    : flag_(flag), other_(other), before_(current_scope) {
  current_scope = flag != nullptr ? this : nullptr;
}

CancelScope::~CancelScope() { current_scope = before_; }

const CancelScope* CancelScope::current() noexcept { return current_scope; }

bool CancelScope::is_set() const noexcept {
  return flag_->load(std::memory_order_relaxed) || (other_ != nullptr && other_->is_set());
}

bool cancel_requested() noexcept { return current_scope != nullptr && current_scope->is_set(); }

void run_wait_hook() {
  if (current_scope == nullptr && wait_hook()) wait_hook()();
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
