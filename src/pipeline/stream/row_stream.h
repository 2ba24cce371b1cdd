#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "format/row_reader.h"
#include "pipeline/batch/batch_maker.h"
#include "pipeline/stream/batch_stream.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/units/read_ahead.h"
#include "plan/order/global_order.h"

// One epoch of a global order from a store whose rows can be read one by one
// (docs/design/0009-pack-cache-and-global-shuffle.md). Each thread takes the next batch, reads its
// rows into its own buffer and assembles it. Threads share only the ring, and nothing is planned,
// so an epoch can start at any batch at once.
//
// Memory holds each thread's rows and the batches. The size of a batch is known once its rows are
// read. Memory is granted in the order of batches, so the batch that the consumer waits for never
// waits for a later one.

namespace penstock::pipeline {

class RowStream final : public BatchStream {
 public:
  /// Throws InvalidArgument if `source` cannot address the selected rows or options are invalid,
  /// and ResourceExhausted with the least budget that works.
  RowStream(const format::MatrixSourcePtr& source, const LoaderOptions& options);
  /// `reader`: of the selected rows; null: ask the setup's reader.
  RowStream(const format::MatrixSource& source, format::RowReaderPtr reader,
            const StreamSetup& setup, const LoaderOptions& options);
  ~RowStream() override;

  uint64_t row_count() const noexcept override { return order_.row_count(); }
  uint64_t fingerprint() const noexcept override { return order_.fingerprint(); }
  uint32_t active_workers() const noexcept override { return setup_.epoch.shard.num_workers; }
  RowSelection rows_before() const override;
  uint64_t row_count_before() const override;
  plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const override {
    return plan::batch_entropy(order_, labels);
  }
  const RowBudgetSplit& budget() const noexcept { return budget_; }

 private:
  /// State of one thread.
  struct Worker;

  RowStream(format::RowReaderPtr reader, const StreamSetup& setup, const LoaderOptions& options);
  RowStream(format::RowReaderPtr reader, const StreamSetup& setup, const RowBudgetSplit& budget,
            const LoaderOptions& options);
  void start() override PENSTOCK_REQUIRES(mutex_);
  void wake_worker() noexcept override PENSTOCK_REQUIRES(mutex_) { work_.notify_all(); }
  void free_parts() noexcept override PENSTOCK_REQUIRES(mutex_) {}
  void add_counts(LoaderStats& stats) const override PENSTOCK_REQUIRES(mutex_);
  uint64_t find_bytes_needed() const override;
  uint64_t planned_bytes() const override;

  void work();
  void make_batch(uint64_t batch, Worker& worker) PENSTOCK_REQUIRES(mutex_);
  void read_rows(uint64_t batch, const ReadAhead::Batches& ahead, Worker& worker) const;
  /// Waits until there is memory for the batch. Returns false if the epoch ends instead.
  bool wait_for_room(uint64_t batch, size_t bytes) PENSTOCK_REQUIRES(mutex_);
  /// Appends the rows in slots [begin, end).
  void append_rows(uint64_t begin, uint64_t end, std::vector<int64_t>& positions,
                   std::vector<int64_t>& joinids) const;

  const format::RowReaderPtr reader_;
  const StreamSetup setup_;
  const RowBudgetSplit budget_;
  const plan::GlobalOrder order_;
  const BatchMaker maker_;
  std::optional<int64_t> first_row_;  ///< set for a range: joinids follow from positions
  uint64_t next_room_ PENSTOCK_GUARDED_BY(mutex_);  ///< the batch that is granted memory next
  ReadAhead ahead_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t bytes_read_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t cached_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t read_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::pipeline
