#pragma once

#include <penstock/loader.h>
#include <unistd.h>

#include <memory>

#include "base/threads/mutex.h"

// Handles of engine objects that own threads or locks, safe for processes that fork. A child has
// neither the threads nor a consistent lock of an inherited object, so it leaks the object.

namespace penstock::python {

struct BatchHandle {
  std::shared_ptr<const Batch> batch;
  pid_t process = getpid();

  explicit BatchHandle(std::shared_ptr<const Batch> made) : batch(std::move(made)) {}
  BatchHandle(BatchHandle&&) noexcept = default;
  ~BatchHandle() {
    if (batch && process != getpid()) new std::shared_ptr<const Batch>(std::move(batch));
  }
};

/// One epoch for Python. Threads that share it take batches in turns.
class LoaderHandle {
 public:
  LoaderHandle(const Matrix& matrix, LoaderOptions options);
  ~LoaderHandle();
  LoaderHandle(const LoaderHandle&) = delete;
  LoaderHandle& operator=(const LoaderHandle&) = delete;

  /// The next batch, null at the end. Called with the GIL held; waits without it. Checks for
  /// signals often enough for Ctrl-C to feel immediate.
  std::shared_ptr<const Batch> next();

  /// Throws InvalidArgument in a process other than the one that made it.
  Loader& loader() const;
  void cancel() noexcept;
  /// Cancels every epoch of this process, at the end of the interpreter. Called with the GIL held.
  static void cancel_all() noexcept;
  bool is_usable() const noexcept { return process_ == getpid(); }

 private:
  std::unique_ptr<Loader> loader_;
  /// Orders the calls of Loader::next_for, which has one consumer at a time. Never waited for with
  /// the GIL. No PENSTOCK_GUARDED_BY names it: cancel() and counts() use loader_ without it.
  Mutex consumer_;
  pid_t process_ = getpid();
};

}  // namespace penstock::python
