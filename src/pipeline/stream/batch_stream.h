#pragma once

#include <penstock/loader.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/lazy.h"
#include "pipeline/memory/batch_pool.h"
#include "pipeline/memory/memory_meter.h"
#include "pipeline/stream/batch_ring.h"
#include "plan/batch_entropy.h"

// One epoch for its consumer: what Loader is inside, however the batches are made. This class has
// the consumer's side, the threads and their end; EpochStream and RowStream make the batches.
//
// Threads start with the first next() and end when all batches are made, on the first error, on
// cancel(), or with the object. A derived class starts them in start(), ends them in its destructor
// (end()), and guards what they share by mutex_.

namespace penstock::pipeline {

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  uint64_t size() const noexcept { return ring_.batch_count(); }
  virtual uint64_t row_count() const noexcept = 0;
  virtual uint64_t fingerprint() const noexcept = 0;
  virtual uint32_t lanes() const noexcept = 0;
  /// joinids in the batches before the first.
  virtual RowSelection rows_before() const = 0;
  virtual uint64_t row_count_before() const = 0;
  virtual plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const = 0;

  /// Null at the end, after cancel(), and after an error was thrown.
  std::shared_ptr<const Batch> next() { return next_for(-1).batch; }
  /// A negative timeout waits.
  Loader::NextBatch next_for(double timeout_seconds);
  /// Whether next() would return or throw at once; false before it was called.
  bool ready() const;
  void cancel() noexcept;
  LoaderStats stats() const;
  uint64_t planned_bytes_read() const;
  /// stats() without what takes long to find: bytes_needed, planned_bytes and planned_bytes_read
  /// are 0.
  LoaderStats counts() const;
  /// After a fork the threads are gone and locks may be held for ever: leave the object alone.
  bool in_other_process() const noexcept;

 protected:
  struct Room {
    uint64_t batch_bytes = 0;  ///< all batches together
    uint32_t batches_ahead = 1;
    uint64_t first_batch = 0;
  };
  explicit BatchStream(const Room& room);

  /// Throws InvalidArgument when first_batch is beyond the epoch. Once, by the constructor.
  void set_batch_count(uint64_t batches);

  /// Under the lock: makes what threads need, and starts them. What it throws ends the epoch.
  virtual void start() = 0;
  /// Calls `loop` in `count` threads more; what it throws ends the epoch. ResourceExhausted where
  /// there are no more threads.
  void start_threads(unsigned count, const std::function<void()>& loop);
  /// Stops the threads and waits for them: the first thing in a derived destructor.
  void end();
  /// Under the lock: a batch was taken, or the consumer waits, or memory came back.
  virtual void wake_worker() noexcept { work_.notify_one(); }
  virtual void wake_all() noexcept;
  /// Under the lock, once, without threads: lets go of what they needed.
  virtual void free_parts() noexcept = 0;
  /// Under the lock: what is counted while batches are made.
  virtual void add_counts(LoaderStats& stats) const = 0;
  /// LoaderStats::bytes_needed; may take long, and is asked for once.
  virtual uint64_t find_bytes_needed() const = 0;
  /// LoaderStats::planned_bytes_read; the same. 0 where rows are read one by one.
  virtual uint64_t find_bytes_planned() const { return 0; }
  virtual uint64_t planned_bytes() const = 0;

  const uint64_t first_batch_;
  const std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
  const std::shared_ptr<BatchPool> batches_;

  mutable std::mutex mutex_;
  std::condition_variable work_;   ///< workers: something to do, the end
  std::condition_variable ready_;  ///< the consumer: its batch is there, the end
  BatchRing ring_;
  bool consumer_waits_ = false;
  bool stop_ = false;

 private:
  void fail(std::exception_ptr error) noexcept;
  void throw_error_once();
  void join() noexcept;
  void free_memory();

  std::exception_ptr error_;
  bool error_thrown_ = false;
  bool cancelled_ = false;
  std::atomic<bool> cancel_reads_{false};  ///< ends waits for a network
  std::vector<std::thread> running_;
  bool started_ = false;
  bool freed_ = false;
  std::atomic<int> process_id_{0};  ///< that the threads are in; 0 before they start

  uint64_t cells_ = 0;
  uint64_t nonzeros_ = 0;
  double wait_seconds_ = 0;
  Lazy<uint64_t> bytes_needed_;
  Lazy<uint64_t> bytes_planned_;
};

/// As many as were asked for; 0: as many as cores.
unsigned thread_count(unsigned wanted);

}  // namespace penstock::pipeline
