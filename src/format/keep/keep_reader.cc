#include "format/keep/keep_reader.h"

#include <algorithm>
#include <utility>

#include "format/keep/chosen_decode.h"
#include "format/keep/keep_decode.h"
#include "format/keep/kept_row_reader.h"

namespace penstock::format {
KeepReader::KeepReader(std::shared_ptr<KeepStore> store, MatrixSourcePtr source,
                       std::span<const int64_t> columns, RowSelection rows)
    : store_(std::move(store)),
      source_(std::move(source)),
      columns_(columns.begin(), columns.end()),
      rows_(std::move(rows)),
      inner_(source_->reader(columns)) {}

RowReaderPtr KeepReader::kept_rows() const {
  return kept_row_reader(*store_, *source_, columns_, rows_);
}

KeepReader::Use KeepReader::begin(const KeepPlan& plan) {
  const KeptColumns kept_columns = store_->columns_of(*source_);
  if (kept_columns != nullptr && *kept_columns != columns_ && kept_bytes() <= plan.spare) {
    chosen_from_ = kept_rows();
    if (chosen_from_ != nullptr) return Use::kChooses;
  }
  if (plan.room == 0) {
    store_->clear();
    return Use::kNone;
  }
  bound_ = store_->bind(source_, columns_);
  if (bound_ == nullptr) return Use::kNone;
  plan_ = plan;
  const uint64_t room_before = store_->set_room(plan.room);
  if (kept_bytes() > plan.room || kept_rows() == nullptr) {
    // A loader of fewer rows, or with more memory, kept them wide. Beside these the others do not
    // fit.
    if (plan.form == KeptForm::kPacked) store_->drop_wide();
    pack_beside_others(std::min(plan.room, room_before));
    store_->make_room(plan_.room, plan_.bytes, rows_);
  }
  if (!plan.keeps_all) fill_room();
  return Use::kKeeps;
}

void KeepReader::fill_room() {
  if (!planned_are_kept()) {
    if (plan_.counts_on_kept) store_->drop_beside(plan_.unit_end, rows_);
    return;
  }
  const uint64_t kept = store_->bytes();
  if (kept == 0 || kept > plan_.room / 16 * 15) return;
  const double more = std::min(2.0, static_cast<double>(plan_.room) / static_cast<double>(kept));
  const double end = more * static_cast<double>(plan_.unit_end);
  plan_.unit_end = static_cast<uint32_t>(std::min(end, 4294967295.0));
}

bool KeepReader::planned_are_kept() const {
  const auto units = static_cast<uint32_t>(source_->units().size());
  for (uint32_t unit = 0; unit < std::min(plan_.unit_end, units); ++unit) {
    if (!store_->find(bound_, unit).has_all(selected_rows(unit))) return false;
  }
  return true;
}

// Such as the other part of a split. If these rows were kept wide and the others dropped for them,
// both would be read again in every epoch.
void KeepReader::pack_beside_others(uint64_t room) {
  if (plan_.form != KeptForm::kWide || room < plan_.unpacked_bytes) return;
  room -= plan_.unpacked_bytes;
  const KeptShares kept = store_->shares(rows_);
  const uint64_t missing = plan_.bytes - std::min(kept.own(), plan_.bytes);
  if (kept.others() == 0 || missing == 0 || kept.own() + missing + kept.others() <= room) return;
  const auto packed = [&](uint64_t wide) {
    return static_cast<uint64_t>(static_cast<double>(wide) / static_cast<double>(plan_.bytes) *
                                 static_cast<double>(plan_.packed_bytes));
  };
  const uint64_t own = kept.own_packed + packed(missing);
  if (own + packed(kept.own_wide + kept.others_wide) + kept.others_packed > room) return;
  plan_.form = KeptForm::kPacked;
  plan_.room = room;
  plan_.bytes = own + kept.own_wide;
  if (plan_.bytes + kept.others() <= room) return;
  store_->drop_wide();
  plan_.bytes = plan_.packed_bytes;
}

void KeepReader::release() {
  chosen_from_ = nullptr;
  std::unordered_set<KeptBlockPtr> used;
  const MutexLock lock(mutex_);
  used.swap(used_);
}

KeptUnitRows KeepReader::use(uint32_t unit) const {
  KeptUnitRows kept = store_->find(bound_, unit);
  const MutexLock lock(mutex_);
  used_.insert(kept.blocks.begin(), kept.blocks.end());
  return kept;
}

bool KeepReader::publish(uint32_t unit, const KeptBlockPtr& block) const {
  if (!store_->publish(bound_, unit, block)) return false;
  const MutexLock lock(mutex_);
  used_.insert(block);
  return true;
}

std::vector<int64_t> KeepReader::selected_rows(uint32_t unit) const {
  std::vector<int64_t> rows;
  const plan::FetchUnit& place = source_->units()[unit];
  rows_.copy_range(place.row_begin, place.row_end, rows);
  return rows;
}

std::unique_ptr<UnitDecode> KeepReader::start(uint32_t unit, std::vector<int64_t> rows,
                                              std::unique_ptr<UnitDecode> recycled) const {
  if (chosen_from_ != nullptr) return start_chosen(std::move(rows), std::move(recycled));
  std::unique_ptr<KeepDecode> decode;
  if (auto* own = dynamic_cast<KeepDecode*>(recycled.get());
      own != nullptr && own->reader() == this) {
    static_cast<void>(recycled.release());
    decode.reset(own);
  } else {
    decode = std::make_unique<KeepDecode>(shared_from_this());
  }
  decode->start(unit, std::move(rows));
  return decode;
}

std::unique_ptr<UnitDecode> KeepReader::start_chosen(std::vector<int64_t> rows,
                                                     std::unique_ptr<UnitDecode> recycled) const {
  std::unique_ptr<ChosenDecode> decode;
  if (auto* own = dynamic_cast<ChosenDecode*>(recycled.get());
      own != nullptr && own->rows() == chosen_from_.get()) {
    static_cast<void>(recycled.release());
    decode.reset(own);
  } else {
    decode = std::make_unique<ChosenDecode>(chosen_from_);
  }
  decode->start(std::move(rows));
  return decode;
}

}  // namespace penstock::format
