#include "format/keep/keep_store.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace penstock::format {
namespace {

/// The record of every row without non-zeros.
constexpr kernel::PackedRowHeader kEmptyRow;

bool is_used(const KeptBlock& block, const RowSelection& rows) {
  return std::any_of(block.joinids.begin(), block.joinids.end(),
                     [&](int64_t joinid) { return rows.contains(joinid); });
}

}  // namespace

std::optional<uint32_t> KeptBlock::find(int64_t joinid) const noexcept {
  if (joinids.empty() || joinid < joinids.front() || joinid > joinids.back()) return std::nullopt;
  const auto from_first = static_cast<size_t>(joinid - joinids.front());
  if (from_first < joinids.size() && joinids[from_first] == joinid) {
    return static_cast<uint32_t>(from_first);
  }
  const auto found = std::lower_bound(joinids.begin(), joinids.end(), joinid);
  if (*found != joinid) return std::nullopt;
  return static_cast<uint32_t>(found - joinids.begin());
}

KeptPlace KeptUnitRows::find(int64_t joinid) const noexcept {
  for (const KeptBlockPtr& block : blocks) {
    if (const auto row = block->find(joinid)) return {block.get(), *row};
  }
  return {};
}

bool KeptUnitRows::has_all(std::span<const int64_t> wanted) const noexcept {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](int64_t joinid) { return find(joinid).block != nullptr; });
}

KeptRecord KeptBlock::record(size_t row) const noexcept {
  if (rows[row].nnz == 0) return {reinterpret_cast<const std::byte*>(&kEmptyRow), 0};
  return {memory.data() + rows[row].at, form == KeptForm::kPacked ? rows[row].stored_bytes : 0};
}

KeepStore::KeepStore() : process_id_(::getpid()) {}

bool KeepStore::in_this_process() const noexcept { return process_id_ == ::getpid(); }

uint64_t KeepStore::row_count(std::optional<KeptForm> form) const {
  if (!in_this_process()) return 0;
  const MutexLock lock(mutex_);
  uint64_t rows = 0;
  for (const auto& unit : units_) {
    for (const auto& block : unit.blocks) {
      if (!form.has_value() || *form == block->form) rows += block->joinids.size();
    }
  }
  return rows;
}

KeptColumns KeepStore::columns_of(const MatrixSource& source) const {
  if (!in_this_process()) return nullptr;
  const MutexLock lock(mutex_);
  return source_.get() == &source ? columns_ : nullptr;
}

KeptColumns KeepStore::bind(const MatrixSourcePtr& source, std::span<const int64_t> columns) {
  if (!in_this_process()) return nullptr;
  const MutexLock lock(mutex_);
  if (source_ != source || columns_ == nullptr ||
      !std::equal(columns.begin(), columns.end(), columns_->begin(), columns_->end())) {
    drop_all();
    source_ = source;
    columns_ = std::make_shared<const std::vector<int64_t>>(columns.begin(), columns.end());
    units_.resize(source->units().size());
  }
  return columns_;
}

KeptUnitRows KeepStore::find(const KeptColumns& columns, uint32_t unit) const {
  if (!in_this_process()) return {};
  const MutexLock lock(mutex_);
  return columns != nullptr && columns == columns_ ? units_[unit] : KeptUnitRows();
}

KeptShares KeepStore::shares(const RowSelection& rows) const {
  if (!in_this_process()) return {};
  const MutexLock lock(mutex_);
  KeptShares found;
  for (const auto& unit : units_) {
    for (const auto& block : unit.blocks) {
      const bool is_own = is_used(*block, rows);
      if (block->form == KeptForm::kWide) {
        (is_own ? found.own_wide : found.others_wide) += block->bytes;
      } else {
        (is_own ? found.own_packed : found.others_packed) += block->bytes;
      }
    }
  }
  return found;
}

void KeepStore::make_room(uint64_t room, uint64_t bytes, const RowSelection& rows) {
  if (!in_this_process()) return;
  const uint64_t used = shares(rows).own();
  const MutexLock lock(mutex_);
  for (auto& unit : units_) {
    drop_if(unit.blocks, [&](const KeptBlockPtr& block) {
      return bytes_ - std::min(used, bytes) + bytes > room && !is_used(*block, rows);
    });
  }
  // Kept by a loader with more memory, or in a larger form.
  for (auto& unit : units_) {
    drop_if(unit.blocks, [&](const KeptBlockPtr&) { return bytes_ > room; });
  }
}

void KeepStore::drop_beside(uint32_t unit_end, const RowSelection& rows) {
  if (!in_this_process()) return;
  const MutexLock lock(mutex_);
  for (uint32_t unit = 0; unit < units_.size(); ++unit) {
    drop_if(units_[unit].blocks, [&](const KeptBlockPtr& block) {
      const auto& ids = block->joinids;
      return unit >= unit_end ||
             !std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return rows.contains(id); });
    });
  }
}

void KeepStore::drop_wide() {
  if (!in_this_process()) return;
  const MutexLock lock(mutex_);
  for (auto& unit : units_) {
    drop_if(unit.blocks, [](const KeptBlockPtr& block) { return block->form == KeptForm::kWide; });
  }
}

template <typename Unwanted>
void KeepStore::drop_if(std::vector<KeptBlockPtr>& blocks, Unwanted&& unwanted) {
  std::erase_if(blocks, [&](const KeptBlockPtr& block) {
    if (!unwanted(block)) return false;
    bytes_ -= block->bytes;
    return true;
  });
}

bool KeepStore::reserve(uint64_t bytes, uint64_t limit) noexcept {
  uint64_t now = bytes_;
  do {
    if (now + bytes > limit) return false;
  } while (!bytes_.compare_exchange_weak(now, now + bytes));
  return true;
}

bool KeepStore::publish(const KeptColumns& columns, uint32_t unit, const KeptBlockPtr& block) {
  if (columns == nullptr || !in_this_process()) return false;
  const MutexLock lock(mutex_);
  if (columns != columns_) return false;
  const KeptUnitRows& kept = units_[unit];
  const auto is_there = [&](int64_t joinid) { return kept.find(joinid).block != nullptr; };
  if (std::any_of(block->joinids.begin(), block->joinids.end(), is_there)) return false;
  units_[unit].blocks.push_back(block);
  return true;
}

void KeepStore::clear() {
  if (!in_this_process()) return;
  const MutexLock lock(mutex_);
  drop_all();
}

void KeepStore::drop_all() {
  for (auto& unit : units_) drop_if(unit.blocks, [](const KeptBlockPtr&) { return true; });
  units_.clear();
  columns_ = nullptr;
  source_ = nullptr;
}

}  // namespace penstock::format
