#pragma once

#include <penstock/data_type.h>
#include <penstock/experiment.h>
#include <penstock/kept_rows.h>
#include <penstock/row_sampling.h>
#include <penstock/row_selection.h>
#include <penstock/transform.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace penstock {

inline namespace literals {
constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr uint64_t operator""_GiB(unsigned long long n) { return n << 30; }
}  // namespace literals

enum class BatchLayout : uint8_t { kCsr, kDense };
/// What happens to the remainder if the rows do not divide among ranks.
enum class UnevenRows : uint8_t { kDrop, kPad, kExact };

/// Rows ascend by joinid.
struct StoredOrder {};

/// Reads each fetch unit once and mixes as many rows at a time as fit in memory_budget.
struct ScatterShuffle {};

/// One uniform permutation of all selected rows across ranks and workers. It does not depend on
/// the memory or the store. If the store can read single rows (Matrix::addresses_rows), rows are
/// read one by one. Otherwise units are read again for each block of rows that fits in memory.
struct GlobalShuffle {};

/// The shuffle of the Census's loaders. Rows in stored order are cut into chunks, and the chunks
/// are put in random order. Each `chunks_per_block` chunks form a block, whose rows are shuffled. A
/// unit is decoded again for each block that has rows of it.
struct ChunkShuffle {
  uint32_t chunk_rows = 64;
  uint32_t chunks_per_block = 1024;
};

/// Order of the rows of an epoch. RowSampling draws rows instead of returning each row once; the
/// drawn rows are mixed as ScatterShuffle does.
using RowOrder =
    std::variant<ScatterShuffle, StoredOrder, GlobalShuffle, ChunkShuffle, RowSampling>;

/// Columns of the matrix that make an array of their own in each batch, such as one measurement of
/// `beside`. Begins where the part before ends.
struct BatchPart {
  int64_t column_end = 0;  ///< exclusive, of the matrix's columns
  BatchLayout layout = BatchLayout::kCsr;
  DataType dtype = DataType::kFloat32;
  std::shared_ptr<const TransformPlan> transforms;  ///< of the part's columns; null: none
  std::string name;                                 ///< for errors; empty: none
};

struct LoaderOptions {
  std::optional<RowSelection> rows;  ///< joinids; absent: every row of the domain
  /// All joinids that the matrix has, to estimate memory if the ids have gaps; absent: those of the
  /// experiment's obs
  std::optional<RowSelection> stored_rows;
  std::optional<std::vector<int64_t>> columns;  ///< ascending column joinids; absent: all
  uint32_t batch_size = 128;
  RowOrder order;
  uint64_t seed = 0;
  uint64_t epoch = 0;
  /// Number of batches to skip at the start of the epoch. The batches after them are bit for bit
  /// the same as without skipping. Units that only skipped batches need are not read.
  uint64_t first_batch = 0;
  uint64_t memory_budget = 2_GiB;  ///< bytes for rows, tiles in flight and finished batches, of
                                   ///< all workers of a rank together
  /// Rows are kept here for the next epochs and taken from here, within memory_budget; null:
  /// nothing is kept. Ignored if there are several ranks or workers.
  std::shared_ptr<KeptRows> kept;
  /// Memory for kept rows beside memory_budget, if not all of them fit in that. 0: rows are kept
  /// within memory_budget, and only if all fit. The order depends on it, even if `kept` is null,
  /// because rows that stay here need no place in memory_budget. See divide_memory.
  uint64_t kept_memory = 0;
  unsigned threads = 0;  ///< 0: as many as cores
  BatchLayout layout = BatchLayout::kCsr;
  DataType dtype =
      DataType::kFloat32;  ///< of the batch's values: float32, float64, or an integer type
  /// Makes a CSR batch uint16 if all its values fit, so that it transfers faster. Memory
  /// is still planned for `dtype`, and the order does not change. Ignored with transforms.
  bool narrow_values = false;
  /// Applied to each cell's values while batches are made; null: none.
  std::shared_ptr<const TransformPlan> transforms;
  /// Not empty: a batch has one array for each part instead of one of all columns (Batch::part).
  /// `layout`, `dtype` and `transforms` above are then not used. The last part ends where the
  /// matrix ends.
  std::vector<BatchPart> parts;
  bool drop_last = false;
  /// A last batch with fewer rows is merged into the batch before, which then exceeds batch_size.
  /// If there is no batch before, its rows are dropped. With kExact every batch must have at least
  /// this many rows; otherwise InvalidArgument.
  uint32_t min_batch = 1;
  UnevenRows uneven = UnevenRows::kDrop;
  uint32_t world_size = 1, rank = 0;
  /// Loaders that share a rank's batches; see Loader::active_workers.
  uint32_t num_workers = 1, worker = 0;
};

/// One mini-batch. Owns its memory, which returns to the loader's pool with the last reference.
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
  /// The row that kPad repeats, so that all ranks have equally many batches.
  std::optional<uint32_t> repeated_row() const noexcept { return repeated_row_; }
  /// Number of tokens of each row, without padding; empty for a batch without tokens.
  std::span<const int32_t> lengths() const noexcept { return lengths_; }

  /// Number of LoaderOptions::parts. A batch with parts has rows, columns and nnz of all of them,
  /// but no arrays of its own except joinids and positions.
  size_t part_count() const noexcept { return parts_.size(); }
  /// A part's arrays; its columns and csr().indices count from the part's first column.
  const std::shared_ptr<const Batch>& part(size_t index) const { return parts_.at(index); }
  /// Of a part: whether the matrix has no entry of the row in the part's columns, one number a row.
  /// Empty for a batch that is no part.
  std::span<const uint8_t> missing() const noexcept { return missing_; }

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
  std::span<const uint8_t> missing_;
  std::vector<std::shared_ptr<const Batch>> parts_;
  std::shared_ptr<void> storage_;
};

struct LoaderStats {
  uint64_t cells = 0;     ///< rows handed to the consumer
  uint64_t nonzeros = 0;  ///< of those rows
  uint64_t batches = 0;
  uint64_t bytes_read = 0;
  uint64_t requests = 0;      ///< reads of the store; for a remote one, ranges
  uint64_t bytes_needed = 0;  ///< stored size of the distinct tiles that this loader's rows touch
  uint64_t units = 0;         ///< unit visits done
  uint64_t units_in_shuffle = 0;  ///< K: units that are mixed at a time
  double consumer_wait_seconds = 0;
  /// Peak of rows, tiles in flight and finished batches, those that the consumer holds included.
  uint64_t peak_buffered_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t planned_bytes = 0;  ///< memory that the plan reserves, known before anything is read
  uint64_t planned_units = 0;  ///< unit visits of the plan
  uint64_t planned_bytes_read =
      0;                       ///< stored bytes that it will read: tiles of its rows and columns
  uint64_t cached_units = 0;   ///< unit visits (of `units`) that were cache hits
  uint64_t cached_bytes = 0;   ///< bytes read from the cache
  uint64_t kept_units = 0;     ///< unit visits (of `units`) whose rows were in memory
  uint64_t kept_bytes = 0;     ///< memory of LoaderOptions::kept, now
  bool all_kept = false;       ///< every row was in memory when the loader was made
  bool requests_rows = false;  ///< each row is a request to a remote store
};

/// Streams one epoch to one consumer thread. Its threads start with the first next() and end with
/// the loader.
class Loader {
 public:
  struct NextBatch {
    std::shared_ptr<const Batch> batch;  ///< null at the end and after a timeout
    bool timed_out = false;
  };
  struct LabelEntropy {
    std::vector<double> batches;  ///< bits
    std::vector<uint64_t> label_rows;
  };

  /// Checks the options and plans the epoch. Reads only a few tiles, to estimate sizes. Throws
  /// InvalidArgument for bad options. If memory_budget is too small, throws ResourceExhausted with
  /// the least budget that works.
  Loader(const Matrix& matrix, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  uint64_t size() const;       ///< batches in the epoch, those before first_batch included
  uint64_t row_count() const;  ///< rows of those batches

  /// Hash of the plan of all ranks and workers, the same on each of them. It changes with anything
  /// that the order depends on, except memory_budget.
  uint64_t fingerprint() const;
  /// Number of workers of each rank that share its batches and memory_budget; the others have no
  /// batches. A worker also reads parts of its neighbours' fetch units. So if workers would get
  /// fewer than eight units each, fewer than num_workers are used.
  uint32_t active_workers() const;
  /// joinids in the batches before first_batch, computed from the plan without reading. Leaves out
  /// the row that kPad repeats, because the row itself belongs to another batch. For the rows of
  /// another rank or worker, make a loader with its numbers.
  RowSelection rows_before() const;
  /// Number of rows in those batches. A row that was drawn several times counts each time; the row
  /// that kPad repeats does not count.
  uint64_t row_count_before() const;

  /// Measures how well the epoch is mixed, from the plan alone: the entropy of a label in each
  /// batch, in bits, and the number of this loader's rows with each label. `labels` has a small
  /// number for each selected row, by position. Takes 4 bytes a row.
  LabelEntropy label_entropy(std::span<const uint32_t> labels) const;

  /// The next batch, or null at the end. Blocks; rethrows the first error of any thread.
  std::shared_ptr<const Batch> next();
  /// As next(), but gives up after `timeout_seconds`.
  NextBatch next_for(double timeout_seconds);

  /// Whether next() would return or throw at once. False before the first next(), which starts the
  /// threads.
  bool ready() const;

  /// Stops all threads; next() then returns null. May be called at any time, from any thread, more
  /// than once.
  void cancel() noexcept;

  LoaderStats stats() const;
  /// stats() at the cost of one lock: bytes_needed, planned_bytes and planned_bytes_read are 0.
  LoaderStats counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
