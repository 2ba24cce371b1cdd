#pragma once

#include <Python.h>

// Waits without the interpreter's lock, made safe for the end of the interpreter.
//
// While CPython finalizes, it ends each other thread that asks for its lock by pthread_exit
// (before 3.14, https://docs.python.org/3/c-api/init.html#cautions-regarding-runtime-finalization).
// That unwinds C++ frames, and std::terminate aborts the process. So a callback of `atexit` first
// lets those threads finish that are about to take the lock, and stops the loaders. From then on a
// thread that would take the lock waits for the end of the process, as in CPython 3.14.

namespace penstock::python {

/// Gives the lock back for the scope's lifetime, as nanobind::gil_scoped_release does.
class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
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

/// The interpreter ends, and the calling thread is not the one that ends it.
bool ends_without_this_thread() noexcept;

}  // namespace penstock::python
