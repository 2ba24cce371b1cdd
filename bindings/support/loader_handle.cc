#include "support/loader_handle.h"

#include <nanobind/nanobind.h>
#include <penstock/error.h>

#include <set>
#include <utility>

#include "base/concat.h"
#include "support/gil.h"

namespace penstock::python {
namespace {
constexpr double kSignalPollSeconds = 0.05;

/// Epochs that have threads. Used with the GIL held.
std::set<LoaderHandle*> started;
}  // namespace

LoaderHandle::LoaderHandle(const Matrix& matrix, LoaderOptions options)
    : loader_(std::make_unique<Loader>(matrix, std::move(options))) {}

LoaderHandle::~LoaderHandle() {
  started.erase(this);
  if (process_ != getpid()) {
    static_cast<void>(loader_.release());
    return;
  }
  if (ends_without_this_thread()) {
    loader_.reset();
    return;
  }
  const GilRelease release;  // threads are joined
  loader_.reset();
}

Loader& LoaderHandle::loader() const {
  if (process_ != getpid()) {
    throw InvalidArgument(
        concat("an iterator cannot be used in a process forked from its own, made in ", process_,
               ", used in ", getpid()));
  }
  return *loader_;
}

std::shared_ptr<const Batch> LoaderHandle::next() {
  Loader& engine = loader();
  started.insert(this);
  for (;;) {
    Loader::NextBatch next;
    {
      const GilRelease release;
      const MutexLock lock(consumer_);
      next = engine.next_for(kSignalPollSeconds);
    }
    exit_at_end();  // which is what ended the epoch then
    if (!next.timed_out) return next.batch;
    if (PyErr_CheckSignals() != 0) {
      engine.cancel();
      throw nanobind::python_error();
    }
  }
}

void LoaderHandle::cancel() noexcept {
  if (process_ == getpid()) loader_->cancel();
}

void LoaderHandle::cancel_all() noexcept {
  for (LoaderHandle* handle : started) handle->cancel();
}

}  // namespace penstock::python
