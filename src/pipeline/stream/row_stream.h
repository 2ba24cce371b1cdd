#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "format/row_reader.h"
#include "pipeline/batch/batch_assembler.h"
#include "pipeline/stream/batch_stream.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/stream/read_ahead.h"
#include "plan/order/global_order.h"

// One epoch of a global order from a store whose rows can be read one by one
// (docs/design/0009-pack-cache-and-global-shuffle.md). Each thread takes the next batch, reads its
// rows into a buffer of its own and assembles it: nothing is shared but the ring, and nothing is
// planned, so an epoch begins at any batch at once.
//
// Memory: a thread's rows, and the batches. How large a batch is is known when its rows are there;
// room is given in the order of batches, so that the one that the consumer waits for never waits
// for a later one.

namespace penstock::pipeline {

class RowStream final : public BatchStream {
 public:
  /// Throws InvalidArgument when `source` cannot address the selected rows, and for options that
  /// make no sense; ResourceExhausted with the least budget that works.
  RowStream(const format::MatrixSourcePtr& source, const LoaderOptions& options);
  /// `reader`: of the selected rows, null to ask the setup's.
  RowStream(const format::MatrixSource& source, format::RowReaderPtr reader,
            const StreamSetup& setup, const LoaderOptions& options);
  ~RowStream() override;

  uint64_t row_count() const noexcept override { return order_.row_count(); }
  uint64_t fingerprint() const noexcept override { return order_.fingerprint(); }
  uint32_t lanes() const noexcept override { return setup_.epoch.shard.num_workers; }
  RowSelection rows_before() const override;
  uint64_t row_count_before() const override;
  plan::BatchEntropy batch_entropy(std::span<const uint32_t> labels) const override {
    return plan::batch_entropy(order_, labels);
  }
  const RowBudgetSplit& budget() const noexcept { return budget_; }

 private:
  /// What a thread works with.
  struct Worker;

  RowStream(format::RowReaderPtr reader, const StreamSetup& setup, const LoaderOptions& options);
  RowStream(format::RowReaderPtr reader, const StreamSetup& setup, const RowBudgetSplit& budget,
            const LoaderOptions& options);
  void start() override;
  void wake_worker() noexcept override { work_.notify_all(); }
  void free_parts() noexcept override {}
  void add_counts(LoaderStats& stats) const override;
  uint64_t find_bytes_needed() const override;
  uint64_t planned_bytes() const override;

  void work();
  void make_batch(uint64_t batch, Worker& worker, std::unique_lock<std::mutex>& lock);
  void read_rows(uint64_t batch, const ReadAhead::Batches& ahead, Worker& worker) const;
  /// Waits until there is memory for the batch; false when the epoch ends instead.
  bool wait_for_room(uint64_t batch, size_t bytes, std::unique_lock<std::mutex>& lock);
  /// The rows in slots [begin, end), after those that are there.
  void append_rows(uint64_t begin, uint64_t end, std::vector<int64_t>& positions,
                   std::vector<int64_t>& joinids) const;

  const format::RowReaderPtr reader_;
  const StreamSetup setup_;
  const RowBudgetSplit budget_;
  const plan::GlobalOrder order_;
  const BatchAssembler assembler_;
  std::optional<int64_t> first_row_;  ///< where the selection is a range: joinids are positions
  uint64_t next_room_;                ///< the batch that gets memory next
  ReadAhead ahead_;
  uint64_t bytes_read_ = 0;
  uint64_t cached_bytes_ = 0;
  uint64_t read_count_ = 0;
};

}  // namespace penstock::pipeline
