#pragma once

#include <Python.h>

// Waits without the interpreter's lock, made safe for the end of the interpreter.
//
// While CPython finalizes, it ends each other thread that asks for its lock by pthread_exit
// (before 3.14, https://docs.python.org/3/c-api/init.html#cautions-regarding-runtime-finalization).
// That unwinds C++ frames, and std::terminate aborts the process. So a callback of `atexit` cancels
// what other threads do in the engine. Python sees SystemExit in them: a thread ends silently, and
// whoever joins it later goes on. The callback waits for these threads to end, for some seconds at
// most, as torch takes the lock when they let go of tensors. It waits a quarter of a second for
// threads that are between two calls. A thread that is still in the engine waits for the end of the
// process.

namespace penstock::python {

/// Gives the lock back for the scope's lifetime, as nanobind::gil_scoped_release does. Throws
/// SystemExit in other threads once the interpreter ends.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the lock for the scope's lifetime, on any thread. Throws IoError once the interpreter
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

/// The interpreter ends, and the calling thread is not the one that ends it. With the lock held the
/// answer stays the same.
bool ends_without_this_thread() noexcept;

/// Throws SystemExit where ends_without_this_thread(). Called with the lock held.
void exit_at_end();

}  // namespace penstock::python
