#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/threads/mutex.h"
#include "format/keep/keep_store.h"
#include "format/matrix_source.h"
#include "format/row_reader.h"

// A reader over another one that keeps the selected rows of each unit that it decodes, as long as
// there is room, and that decodes no unit whose rows are kept. One loader uses it:
//
//   auto reader = make_shared<KeepReader>(store, source, columns, rows);
//   reader->kept_rows()        not null if every row is kept: read them one by one
//   reader->begin(…)           else, before the first unit is read
//   reader->release()          after the last row was used
//
// Rows that are used stay in memory until release(), even if another loader takes their room.

namespace penstock::format {

/// What a loader keeps.
struct KeepPlan {
  uint64_t room = 0;   ///< bytes that may be kept
  uint64_t spare = 0;  ///< bytes that rows kept with more columns may take, which are only used
  uint64_t bytes = 0;  ///< of these, for its own selection
  KeptForm form = KeptForm::kWide;
  uint64_t packed_bytes = 0;    ///< for its own selection, if it is bit-packed
  uint64_t unpacked_bytes = 0;  ///< of the room, for batches if rows are bit-packed
  uint32_t unit_end = 0;        ///< of the units that are kept
  bool keeps_all = false;       ///< there is room for all rows of the selection
  bool counts_on_kept = false;  ///< the epoch's pages have no place for rows below unit_end
  bool comes_back = false;      ///< the order visits a unit many times, for few rows each
};

class KeepReader final : public MatrixReader, public std::enable_shared_from_this<KeepReader> {
 public:
  KeepReader(std::shared_ptr<KeepStore> store, MatrixSourcePtr source,
             std::span<const int64_t> columns, RowSelection rows);

  /// A reader of the selected rows if all are kept, with these or more columns; else null.
  RowReaderPtr kept_rows() const;

  enum class Use : uint8_t {
    kNone,    ///< nothing is kept: there is no room, or this is a forked child
    kKeeps,   ///< rows are kept as they are decoded
    kChooses  ///< all rows are kept with more columns; they stay, and the chosen entries are copied
  };
  /// Rows of other selections are dropped if their room is needed, and rows of other columns unless
  /// these are chosen from them. With no room, all are.
  Use begin(const KeepPlan& plan);
  void release() PENSTOCK_EXCLUDES(mutex_);
  /// Bytes that are kept, those of other loaders included.
  uint64_t kept_bytes() const noexcept { return store_->bytes(); }

  const kernel::PackedRowLayout& row_layout() const override { return inner_->row_layout(); }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override { return inner_->in_flight_bytes(unit); }
  uint64_t fetched_bytes(uint32_t unit) const override { return inner_->fetched_bytes(unit); }
  bool remote() const override { return inner_->remote(); }
  double packed_bytes_per_cell() const override { return inner_->packed_bytes_per_cell(); }
  double packed_bytes_per_cell_of(uint32_t unit) const override {
    return inner_->packed_bytes_per_cell_of(unit);
  }
  uint64_t bytes_needed(const RowSelection& rows) const override {
    return inner_->bytes_needed(rows);
  }
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override {
    return inner_->visit_bytes(unit, rows);
  }
  RowReaderPtr row_reader(const RowSelection& rows) const override {
    return inner_->row_reader(rows);
  }

 private:
  friend class KeepDecode;
  std::unique_ptr<UnitDecode> start_chosen(std::vector<int64_t> rows,
                                           std::unique_ptr<UnitDecode> recycled) const;
  /// Chooses bit-packed rows if wide ones leave no room for those that others have kept. `room` is
  /// this loader's or that of the loader before, if it is less: that one would drop these rows.
  void pack_beside_others(uint64_t room);
  /// Where not all rows have room: keeps more units if all that are planned take less than was
  /// expected, and drops rows that take the room of planned ones.
  void fill_room();
  bool planned_are_kept() const;
  /// What is kept of a unit; it stays in memory until release().
  KeptUnitRows use(uint32_t unit) const PENSTOCK_EXCLUDES(mutex_);
  bool publish(uint32_t unit, const KeptBlockPtr& block) const PENSTOCK_EXCLUDES(mutex_);
  std::vector<int64_t> selected_rows(uint32_t unit) const;

  const std::shared_ptr<KeepStore> store_;
  const MatrixSourcePtr source_;
  const std::vector<int64_t> columns_;
  const RowSelection rows_;
  const std::shared_ptr<const MatrixReader> inner_;
  // Set by begin(), before threads run.
  RowReaderPtr chosen_from_;  ///< all rows, kept with more columns; null: with these, or not all
  KeptColumns bound_;
  KeepPlan plan_;
  mutable Mutex mutex_;
  mutable std::unordered_set<KeptBlockPtr> used_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format
