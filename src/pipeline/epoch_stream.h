#pragma once

#include <penstock/loader.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pipeline/batch_assembler.h"
#include "pipeline/batch_pool.h"
#include "pipeline/batch_ring.h"
#include "pipeline/bucket_store.h"
#include "pipeline/epoch_setup.h"
#include "pipeline/memory_meter.h"
#include "pipeline/unit_scheduler.h"
#include "plan/batch_entropy.h"
#include "plan/epoch_plan.h"

// One epoch from the store to the consumer: the inside of Loader (docs/design/0003-pipeline.md).
//
// `threads` workers decode, scatter and assemble; others wait for reads. One
// mutex guards what is to be done next; the work itself is done without it. A worker makes the next
// batch if it can be made, else takes the next task of the oldest unit. Fetchers start a visit when
// the plan's gate allows it: never further than the units in flight beyond what the first bucket
// needs that still has rows to give. So memory is bounded by the plan, and what is needed next can
// always be read.

namespace penstock::pipeline {

class EpochStream {
 public:
  EpochStream(const format::MatrixSourcePtr& source, const LoaderOptions& options);
  ~EpochStream();
  EpochStream(const EpochStream&) = delete;
  EpochStream& operator=(const EpochStream&) = delete;

  uint64_t size() const noexcept { return plan_.batch_count(); }
  uint64_t row_count() const noexcept { return plan_.row_count(); }

  uint64_t fingerprint() const noexcept { return plan_.fingerprint(); }
  /// joinids in the batches before the first.
  RowSelection rows_before() const;
  uint64_t row_count_before() const;

  plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const {
    return plan::batch_entropy(plan_, labels);
  }

  /// Null at the end, after cancel(), and after an error was thrown. A negative timeout waits.
  std::shared_ptr<const Batch> next(double timeout_seconds, bool* timed_out);
  /// Whether next() would return or throw at once; false before it was called.
  bool ready() const;
  void cancel() noexcept;
  LoaderStats stats() const;
  /// stats() without what the plan has to be played for: bytes_needed and planned_bytes are 0.
  LoaderStats counts() const;
  const BudgetSplit& budget() const noexcept { return setup_.budget; }
  /// After a fork the threads are gone and locks may be held for ever: leave the object alone.
  bool in_other_process() const noexcept;

 private:
  struct BatchJob {
    uint64_t index = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  EpochStream(const format::MatrixSource& source, EpochSetup setup, const LoaderOptions& options,
              unsigned threads);
  void start();
  void join() noexcept;
  void work();
  void fetch();
  template <typename Loop>
  void run_thread(Loop&& loop) noexcept;
  void fail(std::exception_ptr error) noexcept;

  void prepare_claim();
  bool claim_batch(BatchJob& job);
  void make_batch(const BatchJob& job, std::vector<StoredRow>& rows,
                  std::unique_lock<std::mutex>& lock);
  void run_task(const UnitTask& task, std::unique_lock<std::mutex>& lock);
  void update_gate();
  void free_memory();
  void throw_error_once();

  const EpochSetup setup_;
  const unsigned threads_;
  uint64_t planned_bytes_read_ = 0;
  const std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
  const plan::EpochPlan plan_;
  const std::shared_ptr<BatchPool> batches_;
  const BatchAssembler assembler_;
  std::unique_ptr<BucketStore> store_;

  mutable std::mutex mutex_;
  std::condition_variable work_;   ///< workers: tasks, places in the ring, the end
  std::condition_variable fetch_;  ///< fetchers: the gate moved, a unit is done, the end
  std::condition_variable ready_;  ///< the consumer: its batch is there, the end
  std::unique_ptr<UnitScheduler> units_;
  BatchRing ring_;
  std::deque<bool> made_;    ///< batches from first_unmade_ on
  uint64_t first_unmade_;    ///< all batches before it are made
  uint64_t released_batch_;  ///< memory of the rows of all batches before it is free again
  size_t gate_bucket_ = 0;   ///< first bucket with rows to give
  size_t visit_limit_ = 0;   ///< visits before it may be fetched
  BatchJob next_job_;        ///< the batch to claim next
  bool next_job_known_ = false;
  size_t next_job_bucket_ = 0;  ///< of its last row
  size_t next_job_visits_ = 0;  ///< visits that must be done before
  size_t next_job_bytes_ = 0;   ///< 0: not known yet
  bool consumer_waits_ = false;
  bool stop_ = false;
  bool cancelled_ = false;
  std::exception_ptr error_;
  bool error_thrown_ = false;
  std::atomic<bool> cancel_reads_{false};  ///< ends waits for a network
  std::vector<std::thread> running_;
  bool started_ = false;
  std::atomic<int> process_id_{0};  ///< that the threads are in; 0 before they start

  uint64_t cells_ = 0;
  uint64_t nonzeros_ = 0;
  double wait_seconds_ = 0;
  struct {
    uint64_t units = 0, bytes_read = 0, requests = 0, spilled_bytes = 0, cached_units = 0,
             cached_bytes = 0;
  } stats_at_end_;  ///< when units_ and store_ are gone
  mutable std::once_flag needed_once_;
  mutable uint64_t bytes_needed_ = 0;
};

}  // namespace penstock::pipeline
