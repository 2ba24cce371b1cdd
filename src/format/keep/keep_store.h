#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/mapped_region.h"
#include "base/threads/mutex.h"
#include "format/matrix_source.h"

// Rows that stay in memory between epochs, by fetch unit: the inside of KeptRows. Any thread. A
// block lives as long as the store keeps it or a loader uses it.

namespace penstock::format {

enum class KeptForm : uint8_t {
  kWide,   ///< packed rows, as batches are made from them
  kPacked  ///< bit-packed records
};

/// Rows copied by one task, as many as the pipeline packs. Bit-packed, they take whole memory
/// pages.
inline constexpr size_t kKeptRowsPerTask = 64;

/// A row in a block.
struct KeptRow {
  uint64_t at = 0;  ///< byte in the block
  uint32_t nnz = 0;
  uint32_t wide_count = 0;    ///< of the packed row
  uint32_t stored_bytes = 0;  ///< of the bit-packed record; unused in a wide block
};

/// Rows of one unit. Immutable once it is in the store.
struct KeptBlock {
  KeptForm form = KeptForm::kWide;
  std::vector<int64_t> joinids;  ///< ascending
  std::vector<KeptRow> rows;
  MappedRegion memory;
  uint64_t bytes = 0;  ///< that count as kept

  std::optional<uint32_t> find(int64_t joinid) const noexcept;
  /// A packed row, or the record of one.
  KeptRecord record(size_t row) const noexcept;
};

using KeptBlockPtr = std::shared_ptr<const KeptBlock>;

/// Where a row is kept.
struct KeptPlace {
  const KeptBlock* block = nullptr;  ///< null: nowhere
  uint32_t row = 0;
  const KeptRow& info() const noexcept { return block->rows[row]; }
  KeptRecord record() const noexcept { return block->record(row); }
};

/// What is kept of one unit: blocks that share no row.
struct KeptUnitRows {
  std::vector<KeptBlockPtr> blocks;
  KeptPlace find(int64_t joinid) const noexcept;
  bool has_all(std::span<const int64_t> wanted) const noexcept;
};

/// Bytes that a selection uses, and others, by form.
struct KeptShares {
  uint64_t own_wide = 0, own_packed = 0, others_wide = 0, others_packed = 0;
  uint64_t own() const noexcept { return own_wide + own_packed; }
  uint64_t others() const noexcept { return others_wide + others_packed; }
};

using KeptColumns = std::shared_ptr<const std::vector<int64_t>>;

class KeepStore {
 public:
  KeepStore();

  /// Of this form, or of both.
  uint64_t row_count(std::optional<KeptForm> form = std::nullopt) const PENSTOCK_EXCLUDES(mutex_);
  uint64_t bytes() const noexcept { return in_this_process() ? bytes_.load() : 0; }

  /// The columns of the rows of `source` that are kept; null if there are none.
  KeptColumns columns_of(const MatrixSource& source) const PENSTOCK_EXCLUDES(mutex_);
  /// Keeps rows of this source and these columns from now on, and drops all others. Null in a
  /// forked child. What is returned stands for the choice: rows of later choices are not mixed in.
  KeptColumns bind(const MatrixSourcePtr& source, std::span<const int64_t> columns)
      PENSTOCK_EXCLUDES(mutex_);

  /// What is kept of a unit in these columns.
  KeptUnitRows find(const KeptColumns& columns, uint32_t unit) const PENSTOCK_EXCLUDES(mutex_);
  /// Sets the room of the loader that keeps rows now; returns that of the loader before.
  uint64_t set_room(uint64_t room) noexcept { return room_.exchange(room); }
  /// Bytes of the blocks that this selection uses, and of the others.
  KeptShares shares(const RowSelection& rows) const PENSTOCK_EXCLUDES(mutex_);
  /// Drops blocks that this selection does not use until `bytes` fit beside the others in `room`,
  /// and then others until no more than `room` is kept.
  void make_room(uint64_t room, uint64_t bytes, const RowSelection& rows) PENSTOCK_EXCLUDES(mutex_);
  /// Drops blocks of units from `unit_end` on, and those with rows outside of this selection.
  void drop_beside(uint32_t unit_end, const RowSelection& rows) PENSTOCK_EXCLUDES(mutex_);
  /// Drops rows that are not bit-packed.
  void drop_wide() PENSTOCK_EXCLUDES(mutex_);
  /// Counts bytes as kept, unless there would be more than `limit`.
  bool reserve(uint64_t bytes, uint64_t limit) noexcept;
  void give_back(uint64_t bytes) noexcept { bytes_ -= bytes; }
  /// Takes a block, whose bytes are reserved. Returns false, and takes nothing, if one of its rows
  /// is kept by now, or rows of other columns are.
  bool publish(const KeptColumns& columns, uint32_t unit, const KeptBlockPtr& block)
      PENSTOCK_EXCLUDES(mutex_);
  void clear() PENSTOCK_EXCLUDES(mutex_);

 private:
  bool in_this_process() const noexcept;
  template <typename Unwanted>
  void drop_if(std::vector<KeptBlockPtr>& blocks, Unwanted&& unwanted) PENSTOCK_REQUIRES(mutex_);
  void drop_all() PENSTOCK_REQUIRES(mutex_);

  const int process_id_;  ///< after a fork, the lock may be held for ever
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> room_{~uint64_t{0}};
  mutable Mutex mutex_;
  MatrixSourcePtr source_ PENSTOCK_GUARDED_BY(mutex_);
  KeptColumns columns_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<KeptUnitRows> units_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format
