#include "support/gil.h"

#include <nanobind/nanobind.h>
#include <penstock/error.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "register.h"
#include "support/loader_handle.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

using Clock = std::chrono::steady_clock;

/// Longest wait for threads in the engine: readers check for the end every 50 ms, and computations
/// end by themselves.
constexpr auto kPatience = std::chrono::seconds(5);
/// Longest wait for threads between two calls, which may be waiting for something else.
constexpr auto kPatienceOutside = std::chrono::milliseconds(250);
constexpr auto kPause = std::chrono::milliseconds(2);

std::atomic<bool> ending{false};
std::atomic<bool> closed{false};  ///< other threads must not take the lock any more
std::atomic<unsigned long> ending_thread{0};

/// Number of threads in the engine: those with a GilRelease.
std::atomic<int> inside{0};

/// Number of threads that are about to take the lock. A GilAcquire counts until it releases the
/// lock, because the Python code under it takes the lock again by itself.
std::atomic<int> taking{0};

/// Number of threads that have called the engine, and of those that got SystemExit, until they end.
/// They may hold tensors, and torch takes the lock to free tensors.
std::atomic<int> callers{0};
std::atomic<int> leaving{0};

class Caller {
 public:
  void call() noexcept { count(called_, callers); }
  void leave() noexcept { count(leaves_, leaving); }
  void forget() noexcept {
    if (std::exchange(called_, false)) --callers;
    if (std::exchange(leaves_, false)) --leaving;
  }
  ~Caller() { forget(); }

 private:
  static void count(bool& counted, std::atomic<int>& threads) noexcept {
    if (!std::exchange(counted, true)) ++threads;
  }
  bool called_ = false, leaves_ = false;
};
thread_local Caller this_caller;

/// Counts the calling thread as taking the lock, unless `forbidden` is set.
bool may_take(const std::atomic<bool>& forbidden) noexcept {
  ++taking;
  if (!forbidden || PyThread_get_thread_ident() == ending_thread) return true;
  --taking;
  return false;
}

/// Runs in `atexit`, with the lock, before finalization starts.
void end_threads() {
  ending_thread = PyThread_get_thread_ident();
  ending = true;
  LoaderHandle::cancel_all();
  this_caller.forget();
  const nb::gil_scoped_release release;
  const auto begin = Clock::now();
  while (inside > 0 || callers > 0) {
    const bool reached = inside > 0 || leaving > 0;
    if (Clock::now() - begin > (reached ? Clock::duration(kPatience) : kPatienceOutside)) break;
    std::this_thread::sleep_for(kPause);
  }
  closed = true;
  // A callback counts as taking until it returns. It may run a program that asks its user.
  const auto end = std::max(begin + kPatience, Clock::now() + kPatienceOutside);
  while (taking > 0 && Clock::now() < end) std::this_thread::sleep_for(kPause);
}

}  // namespace

bool ends_without_this_thread() noexcept {
  return ending && PyThread_get_thread_ident() != ending_thread;
}

void exit_at_end() {
  if (!ends_without_this_thread()) return;
  this_caller.leave();
  PyErr_SetNone(PyExc_SystemExit);
  throw nb::python_error();
}

GilRelease::GilRelease() {
  exit_at_end();
  this_caller.call();
  ++inside;
  state_ = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  if (!may_take(closed)) {
    for (;;) ::pause();
  }
  PyEval_RestoreThread(state_);
  --inside;
  --taking;
}

GilAcquire::GilAcquire() {
  if (!may_take(ending)) throw IoError("the Python interpreter ends");
  state_ = PyGILState_Ensure();
}

GilAcquire::~GilAcquire() {
  PyGILState_Release(state_);
  --taking;
}

void register_gil(nb::module_& /*module*/) {
  // A child has only the thread that forked, which holds the lock.
  ::pthread_atfork(nullptr, nullptr, [] {
    this_caller.forget();
    taking = inside = callers = leaving = 0;
  });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_threads));
}

}  // namespace penstock::python
