#include "format/keep/keep_decode.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/memory/memory_page.h"
#include "format/row_file/row_record.h"

namespace penstock::format {
namespace {

/// Bit-packing makes a row this much smaller at most, but for odd ones.
constexpr uint64_t kMostPacking = 3;
/// One row in so many of a unit's is a small part.
constexpr size_t kSmallPart = 4;

}  // namespace

void KeepDecode::start(uint32_t unit, std::vector<int64_t> rows) {
  give_up();
  unit_ = unit;
  rows_ = std::move(rows);
  const KeptUnitRows kept = reader_->use(unit);
  places_.resize(rows_.size());
  std::transform(rows_.begin(), rows_.end(), places_.begin(),
                 [&](int64_t row) { return kept.find(row); });
  was_kept_ = std::all_of(places_.begin(), places_.end(),
                          [](const KeptPlace& place) { return place.block != nullptr; });
  if (was_kept_) return;
  std::vector<int64_t> decoded = rows_to_decode(kept);
  inner_rows_.resize(rows_.size());
  for (uint32_t i = 0, at = 0; i < rows_.size(); ++i) {
    if (is_kept(i)) continue;
    while (decoded[at] != rows_[i]) ++at;
    inner_rows_[i] = at;
  }
  is_keeping_ = reader_->plan_.room != 0 && unit < reader_->plan_.unit_end;
  if (is_keeping_) {
    making_ = std::make_shared<KeptBlock>();
    making_->form = reader_->plan_.form;
    making_->joinids = decoded;
  }
  inner_ = reader_->inner_->start(unit, std::move(decoded), std::move(inner_));
}

/// If all rows will be kept, most rows of a unit cost nearly as much as all of them, and a visit of
/// an order that comes back to the unit again and again decodes all, too. A small part, as the
/// first visits of an epoch have, is decoded alone, because it must come soon.
std::vector<int64_t> KeepDecode::rows_to_decode(const KeptUnitRows& kept) const {
  std::vector<int64_t> rows = rows_;
  if (reader_->plan_.keeps_all) {
    std::vector<int64_t> selected = reader_->selected_rows(unit_);
    const bool few = rows_.size() * kSmallPart <= selected.size();
    if (!few || reader_->plan_.comes_back) rows = std::move(selected);
  }
  std::erase_if(rows, [&](int64_t row) { return kept.find(row).block != nullptr; });
  return rows;
}

void KeepDecode::give_up() noexcept {
  reader_->store_->give_back(reserved_.exchange(0));
  making_ = nullptr;
  too_large_ = false;
}

// ---- phases -------------------------------------------------------------------------------------

size_t KeepDecode::phase_count() const {
  if (was_kept_) return 0;
  return inner_->phase_count() + (is_keeping_ ? size_t{kKeepPhases} : 0);
}

size_t KeepDecode::task_count(size_t phase) const {
  const size_t inner = inner_->phase_count();
  if (phase < inner) return inner_->task_count(phase);
  if (phase - inner == kMeasure) return 1;
  if (too_large_) return 0;
  if (phase - inner == kPublish) return 1;
  return (making_->joinids.size() + kKeptRowsPerTask - 1) / kKeptRowsPerTask;
}

void KeepDecode::run(size_t phase, size_t task) {
  const size_t inner = inner_->phase_count();
  if (phase < inner) {
    inner_->run(phase, task);
  } else if (phase - inner == kMeasure) {
    measure();
  } else if (phase - inner == kPublish) {
    publish();
  } else if (!too_large_) {
    const size_t begin = task * kKeptRowsPerTask;
    const size_t end = std::min(begin + kKeptRowsPerTask, making_->joinids.size());
    making_->form == KeptForm::kWide ? copy_wide(begin, end) : copy_packed(begin, end);
  }
}

/// Gives every row a place. A bit-packed row has room for a packed one, of which it uses a part:
/// memory that is not touched costs nothing.
void KeepDecode::measure() {
  uint64_t bytes = 0;
  making_->rows.resize(making_->joinids.size());
  for (uint32_t i = 0; i < making_->rows.size(); ++i) {
    KeptRow& row = making_->rows[i];
    row.at = bytes;
    row.nnz = inner_->nnz(i);
    row.wide_count = inner_->wide_count(i);
    bytes += inner_->packed_bytes(i);
  }
  const uint64_t table = making_->rows.size() * (sizeof(KeptRow) + sizeof(int64_t));
  const bool is_wide = making_->form == KeptForm::kWide;
  const uint64_t now = table + (is_wide ? whole_memory_pages(bytes) : 0);
  // So that the units that do not fit are not packed in vain.
  const uint64_t later = is_wide ? 0 : bytes / kMostPacking;
  if (reader_->store_->bytes() + now + later > reader_->plan_.room ||
      !reader_->store_->reserve(now, reader_->plan_.room)) {
    too_large_ = true;
    return;
  }
  reserved_ += now;
  making_->memory = is_wide ? MappedRegion::filled_once(bytes + pack::kRecordSlack)
                            : MappedRegion::sparse(bytes + pack::kRecordSlack);
}

void KeepDecode::copy_wide(size_t begin, size_t end) {
  std::byte* const memory = making_->memory.data();
  const size_t first = whole_memory_pages(making_->rows[begin].at);
  const size_t last = end < making_->rows.size() ? making_->rows[end].at : making_->memory.size();
  if (last > first) making_->memory.make_resident(memory + first, last - first);
  for (size_t i = begin; i < end; ++i) {
    inner_->pack(static_cast<uint32_t>(i), memory + making_->rows[i].at);
  }
}

void KeepDecode::copy_packed(size_t begin, size_t end) {
  const uint64_t first = making_->rows[begin].at;
  const uint64_t last = end < making_->rows.size() ? making_->rows[end].at
                                                   : making_->memory.size() - pack::kRecordSlack;
  const uint64_t room = last - first;
  const pack::RowDecoder decoder(reader_->row_layout(), reader_->columns_.size());
  pack::RowEncoder encoder(reader_->row_layout(), reader_->columns_.size());
  Buffer packed;
  std::vector<std::byte> records;
  for (size_t i = begin; i < end; ++i) {
    KeptRow& row = making_->rows[i];
    packed.resize_discard(inner_->packed_bytes(static_cast<uint32_t>(i)));
    inner_->pack(static_cast<uint32_t>(i), packed.data());
    // The first one's place stays, since the task before reads it.
    if (i != begin) row.at = first + records.size();
    row.stored_bytes = static_cast<uint32_t>(encoder.append(packed.data(), records));
    if (row.stored_bytes == 0) continue;
    row.wide_count = decoder.shape(std::span(records).last(row.stored_bytes)).wide_count;
  }
  const uint64_t in_page = first % memory_page_bytes();
  const uint64_t bytes = whole_memory_pages(in_page + records.size());
  if (records.size() > room || !reader_->store_->reserve(bytes, reader_->plan_.room)) {
    too_large_ = true;
    return;
  }
  reserved_ += bytes;
  if (!records.empty()) std::memcpy(making_->memory.data() + first, records.data(), records.size());
}

void KeepDecode::publish() {
  if (too_large_) return;
  making_->bytes = reserved_;
  if (!reader_->publish(unit_, making_)) {
    // Another visit of the unit, at the same time, has kept them.
    const KeptUnitRows kept = reader_->use(unit_);
    for (uint32_t i = 0; i < places_.size(); ++i) {
      if (!is_kept(i)) places_[i] = kept.find(rows_[i]);
    }
    give_up();
    return;
  }
  reserved_ = 0;  // they are the store's now
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (!is_kept(i)) places_[i] = {making_.get(), inner_rows_[i]};
  }
}

void KeepDecode::take_buffers(UnitDecode& finished) {
  auto* const other = dynamic_cast<KeepDecode*>(&finished);
  if (other == nullptr || was_kept_) return;
  if (other->inner_ != nullptr && !other->was_kept_) inner_->take_buffers(*other->inner_);
}

// ---- rows ---------------------------------------------------------------------------------------

uint32_t KeepDecode::nnz(uint32_t row) const {
  return is_kept(row) ? places_[row].info().nnz : inner_->nnz(inner_rows_[row]);
}

uint32_t KeepDecode::wide_count(uint32_t row) const {
  return is_kept(row) ? places_[row].info().wide_count : inner_->wide_count(inner_rows_[row]);
}

size_t KeepDecode::packed_bytes(uint32_t row) const {
  return reader_->row_layout().record_bytes(nnz(row), wide_count(row));
}

void KeepDecode::pack(uint32_t row, std::byte* destination) const {
  if (!is_kept(row)) return inner_->pack(inner_rows_[row], destination);
  const KeptRecord kept = places_[row].record();
  if (kept.stored_bytes == 0) {
    std::memcpy(destination, kept.record, packed_bytes(row));
  } else {
    const pack::RowDecoder decoder(reader_->row_layout(), reader_->columns_.size());
    decoder.decode({kept.record, kept.stored_bytes}, {nnz(row), wide_count(row)}, destination);
  }
}

}  // namespace penstock::format
