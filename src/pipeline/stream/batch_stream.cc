#include "pipeline/stream/batch_stream.h"

#include <penstock/error.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "base/threads/cancellation.h"

namespace penstock::pipeline {

unsigned thread_count(unsigned wanted) {
  if (wanted != 0) return wanted;
  return std::max(1U, std::thread::hardware_concurrency());
}

BatchStream::BatchStream(const Room& room)
    : first_batch_(room.first_batch),
      batches_(std::make_shared<BatchPool>(room.batch_bytes, meter_)),
      ring_(0, room.batches_ahead, room.first_batch) {
  // Under the lock, so that a worker that has just found no room sleeps before it is woken.
  batches_->set_on_release([this] {
    const MutexLock lock(mutex_);
    wake_worker();
  });
}

void BatchStream::set_batch_count(uint64_t batches) {
  if (first_batch_ > batches) {
    throw InvalidArgument(
        concat("first_batch is beyond the epoch: ", first_batch_, " of ", batches, " batches"));
  }
  batch_count_ = batches;
  const MutexLock lock(mutex_);
  ring_.set_batch_count(batches);
}

bool BatchStream::in_other_process() const noexcept {
  const int process = process_id_;
  return process != 0 && process != ::getpid();
}

// ---- threads ------------------------------------------------------------------------------------

void BatchStream::start_threads(unsigned count, const std::function<void()>& loop) {
  try {
    for (unsigned i = 0; i < count; ++i) {
      running_.emplace_back([this, loop] {
        const CancelScope scope(&cancel_reads_);
        try {
          loop();
        } catch (...) {
          fail(std::current_exception());
        }
      });
    }
  } catch (const std::system_error& error) {
    throw ResourceExhausted(concat("cannot start threads: ", error.what(), ", ", count, " wanted, ",
                                   running_.size(), " started"));
  }
}

void BatchStream::end() {
  cancel();
  join();
  free_memory();
}

void BatchStream::join() noexcept {
  for (std::thread& thread : running_) thread.join();
  running_.clear();
}

void BatchStream::wake_all() noexcept {
  work_.notify_all();
  ready_.notify_all();
}

void BatchStream::fail(std::exception_ptr error) noexcept {
  cancel_reads_ = true;
  const MutexLock lock(mutex_);
  // Errors of reads that cancel() ended are ignored.
  if (error_ == nullptr && !cancelled_) error_ = std::move(error);
  stop_ = true;
  wake_all();
}

void BatchStream::cancel() noexcept {
  if (in_other_process()) return;
  cancel_reads_ = true;
  const MutexLock lock(mutex_);
  stop_ = true;
  cancelled_ = true;
  wake_all();
}

// ---- the consumer -------------------------------------------------------------------------------

void BatchStream::throw_error_once() {
  if (error_ == nullptr || error_thrown_) return;
  error_thrown_ = true;
  std::rethrow_exception(error_);
}

Loader::NextBatch BatchStream::next_for(double timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  if (in_other_process()) {
    throw InvalidArgument(
        concat("a Loader cannot be used in a forked process once it has started; make a "
               "new one there: started in process ",
               process_id_.load(), ", used in ", ::getpid()));
  }
  MutexLock lock(mutex_);
  throw_error_once();
  if (stop_) return {};
  if (ring_.at_end()) {
    lock.unlock();
    join();
    free_memory();
    return {};
  }
  if (!started_) {
    process_id_ = ::getpid();
    started_ = true;
    try {
      start();
    } catch (...) {
      stop_ = true;
      throw;
    }
  }
  if (!ring_.ready()) {
    const auto begin = Clock::now();
    consumer_waits_ = true;
    wake_worker();
    if (timeout_seconds < 0) {
      while (!stop_ && !ring_.ready()) ready_.wait(mutex_);
    } else {
      const auto wait = std::chrono::duration<double>(std::min(timeout_seconds, 1e6));
      const auto end = begin + std::chrono::duration_cast<Clock::duration>(wait);
      while (!stop_ && !ring_.ready() && ready_.wait_until(mutex_, end)) {
      }
    }
    consumer_waits_ = false;
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  throw_error_once();
  if (stop_) return {};
  if (!ring_.ready()) return {.batch = nullptr, .timed_out = true};
  auto batch = ring_.take();
  cells_ += batch->rows();
  nonzeros_ += batch->nnz();
  wake_worker();
  return {.batch = std::move(batch)};
}

bool BatchStream::ready() const {
  if (in_other_process()) return false;
  const MutexLock lock(mutex_);
  return started_ && (stop_ || error_ != nullptr || ring_.ready() || ring_.at_end());
}

// The threads have ended. Memory of decoders is also returned to the system. glibc would keep it in
// the arenas of ended threads, 10 to 50 MB more in each of the first epochs.
void BatchStream::free_memory() {
  batches_->close();
  std::vector<std::shared_ptr<const Batch>> left;
  {
    const MutexLock lock(mutex_);
    left = ring_.take_all();
    if (!started_ || freed_) return;
    freed_ = true;
    free_parts();
  }
  left.clear();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

LoaderStats BatchStream::stats() const {
  if (in_other_process()) return {};
  LoaderStats stats = counts();
  stats.bytes_needed = bytes_needed_.get([&] { return find_bytes_needed(); });
  stats.planned_bytes = planned_bytes();
  stats.planned_bytes_read = planned_bytes_read();
  return stats;
}

uint64_t BatchStream::planned_bytes_read() const {
  return bytes_planned_.get([&] { return find_bytes_planned(); });
}

LoaderStats BatchStream::counts() const {
  if (in_other_process()) return {};
  const MutexLock lock(mutex_);
  LoaderStats stats;
  stats.cells = cells_;
  stats.nonzeros = nonzeros_;
  stats.batches = ring_.delivered() - first_batch_;
  stats.consumer_wait_seconds = wait_seconds_;
  stats.peak_buffered_bytes = meter_->peak();
  add_counts(stats);
  return stats;
}

}  // namespace penstock::pipeline
