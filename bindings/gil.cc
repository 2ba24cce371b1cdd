#include "gil.h"

#include <nanobind/nanobind.h>
#include <penstock/error.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "loader_handle.h"
#include "register.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

std::atomic<bool> ending{false};
std::atomic<unsigned long> ending_thread{0};

/// Threads between their decision to take the lock and having it; of GilAcquire, until it is given
/// back, as the Python code under it takes the lock again by itself.
std::atomic<int> taking{0};

void stop_taking() noexcept {
  if (--taking == 0) taking.notify_all();
}

/// Counts the calling thread as taking the lock, unless it must not take it any more.
bool may_take() noexcept {
  ++taking;
  if (!ends_without_this_thread()) return true;
  stop_taking();
  return false;
}

/// Runs in `atexit`, with the lock. Finalization begins after it.
void end_threads() {
  ending_thread = PyThread_get_thread_ident();
  ending = true;
  LoaderHandle::cancel_all();
  const nb::gil_scoped_release release;
  for (int threads = taking; threads > 0; threads = taking) taking.wait(threads);
}

}  // namespace

bool ends_without_this_thread() noexcept {
  return ending && PyThread_get_thread_ident() != ending_thread;
}

GilRelease::~GilRelease() {
  if (!may_take()) {
    for (;;) ::pause();
  }
  PyEval_RestoreThread(state_);
  stop_taking();
}

GilAcquire::GilAcquire() {
  if (!may_take()) throw IoError("the Python interpreter ends");
  state_ = PyGILState_Ensure();
}

GilAcquire::~GilAcquire() {
  PyGILState_Release(state_);
  stop_taking();
}

void register_gil(nb::module_& /*module*/) {
  // A child has only the thread that forked, which has the lock.
  ::pthread_atfork(nullptr, nullptr, [] { taking = 0; });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_threads));
}

}  // namespace penstock::python
