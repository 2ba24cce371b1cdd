#pragma once

#include <penstock/loader.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/threads/lazy.h"
#include "base/threads/mutex.h"
#include "pipeline/memory/batch_pool.h"
#include "pipeline/memory/memory_meter.h"
#include "pipeline/stream/batch_ring.h"
#include "plan/batch_entropy.h"

// One epoch as its consumer sees it: the inside of Loader, however batches are made. This class has
// the consumer's side and the life of the threads; EpochStream and RowStream make the batches.
//
// Threads start with the first next(). They end when all batches are made, on the first error, on
// cancel(), or with the object. A derived class starts its threads in start(), ends them in its
// destructor (end()), and guards their shared state by mutex_.

namespace penstock::pipeline {

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  uint64_t size() const noexcept { return batch_count_; }
  virtual uint64_t row_count() const noexcept = 0;
  virtual uint64_t fingerprint() const noexcept = 0;
  virtual uint32_t active_workers() const noexcept = 0;
  /// joinids in the batches before first_batch.
  virtual RowSelection rows_before() const = 0;
  virtual uint64_t row_count_before() const = 0;
  virtual plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const = 0;

  /// Returns null at the end, after cancel(), and after an error was thrown.
  std::shared_ptr<const Batch> next() { return next_for(-1).batch; }
  /// A negative timeout waits without limit.
  Loader::NextBatch next_for(double timeout_seconds);
  /// Whether next() would return or throw at once; false before the first next().
  bool ready() const;
  void cancel() noexcept;
  LoaderStats stats() const;
  uint64_t planned_bytes_read() const;
  /// stats() without the fields that are slow to compute: bytes_needed, planned_bytes and
  /// planned_bytes_read are 0.
  LoaderStats counts() const;
  /// After a fork, the threads do not exist and locks may be held for ever: leave the object alone.
  bool in_other_process() const noexcept;

 protected:
  struct Room {
    uint64_t batch_bytes = 0;  ///< all batches together
    uint32_t batches_ahead = 1;
    uint64_t first_batch = 0;
  };
  explicit BatchStream(const Room& room);

  /// Throws InvalidArgument if first_batch is beyond the epoch. The constructor calls it once.
  void set_batch_count(uint64_t batches);

  /// Under the lock: makes what threads need, and starts them. An exception ends the epoch.
  virtual void start() PENSTOCK_REQUIRES(mutex_) = 0;
  /// Runs `loop` in `count` more threads; an exception in it ends the epoch. Throws
  /// ResourceExhausted if there are no more threads.
  void start_threads(unsigned count, const std::function<void()>& loop);
  /// Stops the threads and waits for them. A derived destructor must call this first.
  void end() PENSTOCK_EXCLUDES(mutex_);
  /// Under the lock: a batch was taken, the consumer waits, or memory was returned.
  virtual void wake_worker() noexcept PENSTOCK_REQUIRES(mutex_) { work_.notify_one(); }
  virtual void wake_all() noexcept PENSTOCK_REQUIRES(mutex_);
  /// Under the lock, once, after the threads have ended: releases what they needed.
  virtual void free_parts() noexcept PENSTOCK_REQUIRES(mutex_) = 0;
  /// Under the lock: adds the counts of the batches made so far.
  virtual void add_counts(LoaderStats& stats) const PENSTOCK_REQUIRES(mutex_) = 0;
  /// Finds LoaderStats::bytes_needed. May be slow; called once.
  virtual uint64_t find_bytes_needed() const = 0;
  /// Finds LoaderStats::planned_bytes_read, likewise. 0 if rows are read one by one.
  virtual uint64_t find_bytes_planned() const { return 0; }
  virtual uint64_t planned_bytes() const = 0;

  const uint64_t first_batch_;
  const std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
  const std::shared_ptr<BatchPool> batches_;

  mutable Mutex mutex_;
  ConditionVariable work_;   ///< workers: there is work, or the end
  ConditionVariable ready_;  ///< the consumer: its batch is ready, or the end
  BatchRing ring_ PENSTOCK_GUARDED_BY(mutex_);
  bool consumer_waits_ PENSTOCK_GUARDED_BY(mutex_) = false;
  bool stop_ PENSTOCK_GUARDED_BY(mutex_) = false;

 private:
  void fail(std::exception_ptr error) noexcept PENSTOCK_EXCLUDES(mutex_);
  void throw_error_once() PENSTOCK_REQUIRES(mutex_);
  void join() noexcept PENSTOCK_EXCLUDES(mutex_);
  void free_memory() PENSTOCK_EXCLUDES(mutex_);

  uint64_t batch_count_ = 0;  ///< written once, by set_batch_count()
  std::exception_ptr error_ PENSTOCK_GUARDED_BY(mutex_);
  bool error_thrown_ PENSTOCK_GUARDED_BY(mutex_) = false;
  bool cancelled_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::atomic<bool> cancel_reads_{false};  ///< ends waits for the network
  std::vector<std::thread> running_;       ///< used by the consumer and the destructor alone
  bool started_ PENSTOCK_GUARDED_BY(mutex_) = false;
  bool freed_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::atomic<int> process_id_{0};  ///< process that the threads run in; 0 before they start

  uint64_t cells_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t nonzeros_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  double wait_seconds_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  Lazy<uint64_t> bytes_needed_;
  Lazy<uint64_t> bytes_planned_;
};

/// Returns `wanted`, or the number of cores if it is 0.
unsigned thread_count(unsigned wanted);

}  // namespace penstock::pipeline
