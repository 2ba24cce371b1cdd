#pragma once

#include <penstock/data_type.h>
#include <penstock/experiment.h>
#include <penstock/row_sampling.h>
#include <penstock/row_selection.h>
#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace penstock {

inline namespace literals {
constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr uint64_t operator""_GiB(unsigned long long n) { return n << 30; }
}  // namespace literals

enum class BatchLayout : uint8_t { kCsr, kDense };
enum class UnevenRows : uint8_t { kDrop, kPad, kExact };

/// Rows ascend by joinid.
struct StoredOrder {};

/// Reads every fetch unit once and mixes as many rows at a time as memory_budget holds.
struct ScatterShuffle {};

/// One uniform permutation of all selected rows, of every rank and worker, whatever the memory and
/// the store. Rows are read one by one where the store can (Matrix::addresses_rows); elsewhere
/// units are read again for every block of rows that fits in memory.
struct GlobalShuffle {};

/// The shuffle of the Census's loaders: rows in stored order are cut into chunks, the chunks put in
/// random order, as many of them as a block has are read, and the rows of a block shuffled. Units
/// are decoded again for each block that has rows of them.
struct ChunkShuffle {
  uint32_t chunk_rows = 64;
  uint32_t chunks_per_block = 1024;
};

/// How the rows of an epoch follow one another. RowSampling draws them instead of giving each one
/// once; what is drawn is mixed as ScatterShuffle does.
using RowOrder =
    std::variant<ScatterShuffle, StoredOrder, GlobalShuffle, ChunkShuffle, RowSampling>;

struct LoaderOptions {
  std::optional<RowSelection> rows;  ///< joinids; every row of the domain when absent
  /// joinids that the matrix has at all, for estimates of memory where there are gaps; absent:
  /// those of the experiment's obs
  std::optional<RowSelection> stored_rows;
  std::optional<std::vector<int64_t>> columns;  ///< ascending column joinids; all when absent
  uint32_t batch_size = 128;
  RowOrder order;
  uint64_t seed = 0;
  uint64_t epoch = 0;
  /// Batches at the start of the epoch to leave out, as if they had been handed over: what follows
  /// is, bit for bit, what would have followed. Units that only they needed are not read.
  uint64_t first_batch = 0;
  uint64_t memory_budget = 2_GiB;  ///< bytes for everything: rows, tiles in flight, finished
                                   ///< batches, of all workers of a rank together
  unsigned threads = 0;            ///< 0: as many as cores
  BatchLayout layout = BatchLayout::kCsr;
  DataType dtype =
      DataType::kFloat32;  ///< of the batch's values: float32, float64, or an integer type
  /// CSR values are uint16 in each batch where all of them are such numbers, to be sent on in less
  /// time; memory is planned for `dtype` all the same, and the order is the same.
  bool narrow_values = false;
  /// What is done to each cell's values while batches are made; null: nothing.
  std::shared_ptr<const TransformPlan> transforms;
  bool drop_last = false;
  /// A last batch with fewer rows joins the one before it (which then has more than batch_size), or
  /// is left out when it is the only one. With kExact every batch must have as many:
  /// InvalidArgument where that cannot be.
  uint32_t min_batch = 1;
  UnevenRows uneven = UnevenRows::kDrop;
  uint32_t world_size = 1, rank = 0;
  uint32_t num_workers = 1, worker = 0;  ///< loaders that share a rank's batches (Loader::lanes)
};

/// One mini-batch. Owns its memory, which goes back to the loader's pool when the last reference
/// goes.
class Batch {
 public:
  struct Csr {
    std::span<const int32_t> indptr;   ///< rows + 1
    std::span<const int32_t> indices;  ///< output columns, ascending within a row
    const std::byte* data = nullptr;   ///< nnz values of dtype()
  };

  uint32_t rows() const noexcept { return rows_; }
  uint32_t columns() const noexcept { return columns_; }
  uint64_t nnz() const noexcept { return nnz_; }
  DataType dtype() const noexcept { return dtype_; }
  BatchLayout layout() const noexcept { return layout_; }

  Csr csr() const;                 ///< InvalidArgument for a dense batch
  const std::byte* dense() const;  ///< row-major rows x columns of dtype(); InvalidArgument for CSR
  std::span<const int64_t> joinids() const noexcept { return joinids_; }
  /// Position of each row in the selection, to gather obs columns with.
  std::span<const int64_t> positions() const noexcept { return positions_; }
  /// The row that is here a second time so that ranks make equally many batches (kPad).
  std::optional<uint32_t> repeated_row() const noexcept { return repeated_row_; }
  /// How many tokens each row has before the padding; empty for a batch that is none of tokens.
  std::span<const int32_t> lengths() const noexcept { return lengths_; }

  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend struct BatchAccess;
  Batch() = default;
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  uint64_t nnz_ = 0;
  DataType dtype_ = DataType::kFloat32;
  BatchLayout layout_ = BatchLayout::kCsr;
  std::span<const int64_t> joinids_, positions_;
  std::optional<uint32_t> repeated_row_;
  std::span<const int32_t> indptr_, indices_, lengths_;
  const std::byte* values_ = nullptr;
  std::shared_ptr<void> storage_;
};

struct LoaderStats {
  uint64_t cells = 0;     ///< rows handed to the consumer
  uint64_t nonzeros = 0;  ///< of those rows
  uint64_t batches = 0;
  uint64_t bytes_read = 0;
  uint64_t requests = 0;      ///< reads that the store was asked for; of a remote one, ranges
  uint64_t bytes_needed = 0;  ///< stored size of the distinct tiles that this loader's rows touch
  uint64_t units = 0;         ///< unit visits done
  uint64_t units_in_shuffle = 0;  ///< K
  double consumer_wait_seconds = 0;
  /// Most that rows, tiles in flight and finished batches took, those the consumer holds included.
  uint64_t peak_buffered_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t planned_bytes = 0;  ///< memory that the plan sets aside, known before anything is read
  uint64_t planned_units = 0;  ///< unit visits of the plan
  uint64_t planned_bytes_read =
      0;                      ///< stored bytes that it will read: tiles of its rows and columns
  uint64_t cached_units = 0;  ///< of `units`, those that a cache had
  uint64_t cached_bytes = 0;  ///< read from it
};

/// Streams one epoch. Threads start with the first next() and end with the loader; one consumer
/// thread.
class Loader {
 public:
  /// Checks the options and plans the epoch; reads no cell but a few tiles to estimate sizes.
  /// Throws InvalidArgument, and ResourceExhausted with the least budget that works.
  Loader(const Matrix& matrix, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  uint64_t size() const;       ///< batches in the epoch, those before first_batch included
  uint64_t row_count() const;  ///< in all of them

  /// Of the plan of all ranks and workers: the same on each of them, another where anything differs
  /// that the order depends on but memory_budget.
  uint64_t fingerprint() const;
  /// Workers of each rank that share its batches and memory_budget; those from there on have no
  /// batches. Fewer than num_workers where a worker would get fewer than eight fetch units, of
  /// which it reads parts of its neighbours' in vain.
  uint32_t lanes() const;
  /// joinids in the batches before first_batch, from the plan alone: nothing is read. The row that
  /// kPad repeats is not among them, as its own turn comes elsewhere. What the
  /// other ranks and workers have handed over, loaders with their numbers tell.
  RowSelection rows_before() const;
  /// How many rows those batches have: one that was drawn again is counted each time, the one that
  /// UnevenRows::kPad repeats is not.
  uint64_t row_count_before() const;

  /// How well the epoch is mixed, from the plan alone: the entropy of a label in each batch, in
  /// bits, and the rows of this loader with each label. `labels` has a small number for each
  /// selected row, by position. Takes 4 bytes a row.
  struct LabelEntropy {
    std::vector<double> batches;
    std::vector<uint64_t> label_rows;
  };
  LabelEntropy label_entropy(std::span<const uint32_t> labels) const;

  /// The next batch, or null at the end. Blocks; rethrows the first error of any thread.
  std::shared_ptr<const Batch> next();
  /// As next(), but gives up after `timeout_seconds`.
  struct NextBatch {
    std::shared_ptr<const Batch> batch;  ///< null at the end and where the time is over
    bool timed_out = false;
  };
  NextBatch next_for(double timeout_seconds);

  /// Whether next() would return or throw at once. False before the first next(), which starts it.
  bool ready() const;

  /// Stops all threads; next() then returns null. Safe at any moment, from any thread, more than
  /// once.
  void cancel() noexcept;

  LoaderStats stats() const;
  /// stats() at the cost of a lock: bytes_needed, planned_bytes and
  /// planned_bytes_read are 0.
  LoaderStats counts() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
