#pragma once

#include <atomic>
#include <functional>

// Cancels threads that wait for the network or read many files.
//
// A loader gives its fetching threads a flag for their lifetime (CancelScope). Code that waits long
// checks cancel_requested() now and then. A thread without a scope belongs to the caller, who may
// press Ctrl-C. There the wait hook asks the interpreter, if there is one, and may throw.
// parallel_for (base/threads/parallel.h) calls the hook between items and while it waits for its
// threads, so opening and reading tables can be interrupted. Its threads then end their waits, too.
//
// The hook may wait for the interpreter's lock. Do not call it while holding a lock that another
// thread takes while it holds the interpreter's lock.

namespace penstock {

/// Sets the calling thread's flag for the scope's lifetime; null is allowed.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>* flag) noexcept;
  /// Of a thread that works for another: the flags of that thread, as its current() gave them,
  /// count as well. The other waits for this one.
  CancelScope(const std::atomic<bool>* flag, const CancelScope* other) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  /// The calling thread's scope; null if it has none.
  static const CancelScope* current() noexcept;
  bool is_set() const noexcept;

 private:
  const std::atomic<bool>* const flag_;
  const CancelScope* const other_;
  const CancelScope* const before_;
};

/// Whether the calling thread's flag is set.
bool cancel_requested() noexcept;

/// Calls the hook, if there is one and the thread has no scope. May throw what the hook throws.
void run_wait_hook();

/// As run_wait_hook(), but does nothing within 50 ms of the thread's last call.
void poll_wait_hook();

/// Sets the hook. Called once by the bindings, before other threads run.
void set_wait_hook(std::function<void()> hook);

}  // namespace penstock
