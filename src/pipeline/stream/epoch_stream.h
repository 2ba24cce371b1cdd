#pragma once

#include <penstock/loader.h>

#include <deque>
#include <memory>
#include <vector>

#include "base/threads/mutex.h"
#include "pipeline/batch/batch_maker.h"
#include "pipeline/batch/batch_rows.h"
#include "pipeline/memory/bucket_store.h"
#include "pipeline/stream/batch_stream.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/units/unit_scheduler.h"
#include "plan/epoch_plan.h"

// One epoch that is read by units (docs/design/0003-pipeline.md).
//
// `threads` workers decode, scatter and assemble; other threads wait for reads. One mutex guards
// the choice of the next step, and the work itself runs without it. A worker makes the next batch
// if possible, otherwise it takes the next task of the oldest unit. Fetchers start a visit when the
// plan's gate allows it: at most the units in flight beyond what the first bucket with rows left
// needs. Memory is therefore bounded by the plan, and the next visit that is needed can always be
// read.

namespace penstock::pipeline {

class EpochStream final : public BatchStream {
 public:
  EpochStream(const format::MatrixSourcePtr& source, const LoaderOptions& options);
  EpochStream(EpochSetup setup, const LoaderOptions& options);
  ~EpochStream() override;

  uint64_t row_count() const noexcept override { return plan_.row_count(); }
  uint64_t fingerprint() const noexcept override { return plan_.fingerprint(); }
  uint32_t active_workers() const noexcept override { return plan_.active_workers(); }
  RowSelection rows_before() const override;
  uint64_t row_count_before() const override;
  plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const override {
    return plan::batch_entropy(plan_, labels);
  }
  const BudgetSplit& budget() const noexcept { return setup_.budget; }

 private:
  struct BatchJob {
    uint64_t index = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  void start() override PENSTOCK_REQUIRES(mutex_);
  void wake_all() noexcept override PENSTOCK_REQUIRES(mutex_);
  void free_parts() noexcept override PENSTOCK_REQUIRES(mutex_);
  void add_counts(LoaderStats& stats) const override PENSTOCK_REQUIRES(mutex_);
  uint64_t find_bytes_needed() const override { return bytes_needed(setup_, plan_); }
  uint64_t find_bytes_planned() const override { return bytes_planned(setup_, plan_); }
  uint64_t planned_bytes() const override;
  void work();
  void fetch();

  void prepare_claim() PENSTOCK_REQUIRES(mutex_);
  bool claim_batch(BatchJob& job) PENSTOCK_REQUIRES(mutex_);
  void make_batch(const BatchJob& job, BatchRows& rows) PENSTOCK_REQUIRES(mutex_);
  void run_task(const UnitTask& task) PENSTOCK_REQUIRES(mutex_);
  void update_gate() PENSTOCK_REQUIRES(mutex_);

  const EpochSetup setup_;
  const unsigned threads_;
  const plan::EpochPlan plan_;
  const BatchMaker maker_;
  const format::pack::RowDecoder decoder_;  ///< of rows that are kept bit-packed
  std::unique_ptr<BucketStore> store_ PENSTOCK_GUARDED_BY(mutex_);

  ConditionVariable fetch_;  ///< fetchers: the gate moved, a unit is done, or the end
  std::unique_ptr<UnitScheduler> units_ PENSTOCK_GUARDED_BY(mutex_);
  std::deque<bool> made_ PENSTOCK_GUARDED_BY(mutex_);  ///< batches from first_unmade_ on
  uint64_t first_unmade_ PENSTOCK_GUARDED_BY(mutex_);  ///< all batches before it are made
  uint64_t released_batch_
      PENSTOCK_GUARDED_BY(mutex_);                      ///< rows of all batches before it are freed
  size_t gate_bucket_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< first bucket with rows left
  size_t visit_limit_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< visits before it may be fetched
  BatchJob next_job_ PENSTOCK_GUARDED_BY(mutex_);       ///< the batch to claim next
  bool next_job_known_ PENSTOCK_GUARDED_BY(mutex_) = false;
  size_t next_job_bucket_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< bucket of its last row
  size_t next_job_visits_ PENSTOCK_GUARDED_BY(mutex_) = 0;  ///< visits that must be done before
  size_t next_job_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;   ///< 0: unknown
  bool all_kept_ PENSTOCK_GUARDED_BY(mutex_);               ///< every row is in memory

  struct {
    uint64_t units = 0, bytes_read = 0, requests = 0, spilled_bytes = 0, cached_units = 0,
             cached_bytes = 0, kept_units = 0;
  } stats_at_end_ PENSTOCK_GUARDED_BY(mutex_);  ///< kept after units_ and store_ are gone
};

}  // namespace penstock::pipeline
