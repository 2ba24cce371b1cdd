#include "loader_handle.h"

#include <nanobind/nanobind.h>
#include <penstock/error.h>

#include <string>
#include <utility>

namespace penstock::python {
namespace {
constexpr double kSignalPollSeconds = 0.05;
}

LoaderHandle::LoaderHandle(const Matrix& matrix, LoaderOptions options)
    : loader_(std::make_unique<Loader>(matrix, std::move(options))) {}

LoaderHandle::~LoaderHandle() {
  if (process_ != getpid()) {
    static_cast<void>(loader_.release());
    return;
  }
  nanobind::gil_scoped_release release;  // threads are joined
  loader_.reset();
}

Loader& LoaderHandle::loader() const {
  if (process_ != getpid()) {
    throw InvalidArgument("an iterator cannot be used in a process forked from its own, made in " +
                          std::to_string(process_) + ", used in " + std::to_string(getpid()));
  }
  return *loader_;
}

std::shared_ptr<const Batch> LoaderHandle::next() {
  Loader& engine = loader();
  for (;;) {
    bool timed_out = false;
    std::shared_ptr<const Batch> batch;
    {
      nanobind::gil_scoped_release release;
      const std::lock_guard lock(consumer_);
      batch = engine.next_for(kSignalPollSeconds, &timed_out);
    }
    if (!timed_out) return batch;
    if (PyErr_CheckSignals() != 0) {
      engine.cancel();
      throw nanobind::python_error();
    }
  }
}

void LoaderHandle::cancel() noexcept {
  if (process_ == getpid()) loader_->cancel();
}

}  // namespace penstock::python
