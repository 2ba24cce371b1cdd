#pragma once

#include <Python.h>

// Waits without the interpreter's lock, safely at the end of the interpreter.
//
// While CPython finalizes, it ends each other thread that asks for its lock by pthread_exit
// (before 3.14, https://docs.python.org/3/c-api/init.html#cautions-regarding-runtime-finalization).
// This unwinds C++ frames, and std::terminate aborts the process. So a callback of `atexit` cancels
// the work of other threads in the engine. They raise SystemExit in Python, which ends a thread
// silently, and a thread that joins one later continues. The callback waits some seconds at most
// for these threads to end, because torch takes the lock when they free tensors. It waits a quarter
// of a second for threads that are between two calls. A thread that is still in the engine then
// waits for the end of the process.

namespace penstock::python {

/// Releases the lock for the scope's lifetime, as nanobind::gil_scoped_release does. Once the
/// interpreter ends, throws SystemExit in other threads than the one that ends it.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

/// Acquires the lock for the scope's lifetime, on any thread. Throws IoError once the interpreter
/// ends.
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Whether the interpreter ends and the calling thread is not the one that ends it. While the lock
/// is held, the answer does not change.
bool ends_without_this_thread() noexcept;

/// Throws SystemExit if ends_without_this_thread(). Called with the lock held.
void exit_at_end();

}  // namespace penstock::python
