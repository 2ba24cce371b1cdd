#pragma once

#include <atomic>
#include <functional>

// How a thread that waits for the network, or reads many files, learns that nobody wants the answer
// any more.
//
// A loader gives its fetching threads a flag for as long as they live (CancelScope); whoever waits
// long asks cancel_requested() every now and then. A thread without a scope belongs to the caller,
// who may press Ctrl-C: the wait hook then asks the interpreter, where there is one, and may throw.
// parallel_for (base/parallel.h) lets it look between items, so that opening and reading tables can
// be interrupted. The hook may wait for the interpreter's lock: no lock that a thread of the
// interpreter takes while it holds that one may be held here.

namespace penstock {

/// Sets the calling thread's flag for the scope's lifetime; null is allowed.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>* flag) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

/// The calling thread's flag is set.
bool cancel_requested() noexcept;

/// Calls the hook, if there is one and the thread has no scope. May throw what the hook throws.
void run_wait_hook();

/// The same, but for calls within 50 ms of the thread's last one.
void poll_wait_hook();

/// Set once, before other threads run; by the bindings.
void set_wait_hook(std::function<void()> hook);

}  // namespace penstock
