#pragma once

#include <penstock/loader.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "pipeline/batch/batch_assembler.h"
#include "pipeline/memory/bucket_store.h"
#include "pipeline/stream/batch_stream.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/unit_scheduler.h"
#include "plan/epoch_plan.h"

// One epoch that is read unit by unit (docs/design/0003-pipeline.md).
//
// `threads` workers decode, scatter and assemble; others wait for reads. One
// mutex guards what is to be done next; the work itself is done without it. A worker makes the next
// batch if it can be made, else takes the next task of the oldest unit. Fetchers start a visit when
// the plan's gate allows it: never further than the units in flight beyond what the first bucket
// needs that still has rows to give. So memory is bounded by the plan, and what is needed next can
// always be read.

namespace penstock::pipeline {

class EpochStream final : public BatchStream {
 public:
  EpochStream(const format::MatrixSourcePtr& source, const LoaderOptions& options);
  EpochStream(EpochSetup setup, const LoaderOptions& options);
  ~EpochStream() override;

  uint64_t row_count() const noexcept override { return plan_.row_count(); }
  uint64_t fingerprint() const noexcept override { return plan_.fingerprint(); }
  uint32_t lanes() const noexcept override { return plan_.lanes(); }
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

  void start() override;
  void wake_all() noexcept override;
  void free_parts() noexcept override;
  void add_counts(LoaderStats& stats) const override;
  uint64_t find_bytes_needed() const override { return bytes_needed(setup_, plan_); }
  uint64_t find_bytes_planned() const override { return bytes_planned(setup_, plan_); }
  uint64_t planned_bytes() const override;
  void work();
  void fetch();

  void prepare_claim();
  bool claim_batch(BatchJob& job);
  void make_batch(const BatchJob& job, std::vector<PackedRowRef>& rows,
                  std::unique_lock<std::mutex>& lock);
  void run_task(const UnitTask& task, std::unique_lock<std::mutex>& lock);
  void update_gate();

  const EpochSetup setup_;
  const unsigned threads_;
  const plan::EpochPlan plan_;
  const BatchAssembler assembler_;
  std::unique_ptr<BucketStore> store_;

  std::condition_variable fetch_;  ///< fetchers: the gate moved, a unit is done, the end
  std::unique_ptr<UnitScheduler> units_;
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

  struct {
    uint64_t units = 0, bytes_read = 0, requests = 0, spilled_bytes = 0, cached_units = 0,
             cached_bytes = 0;
  } stats_at_end_;  ///< when units_ and store_ are gone
};

}  // namespace penstock::pipeline
