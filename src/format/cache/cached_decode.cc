#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/cache/cached_source.h"

namespace penstock::format::pack {
namespace {

constexpr size_t kTaskRows = 64;

}  // namespace

void CachedDecode::start(uint32_t unit, std::vector<int64_t> rows) {
  if (inner_ != nullptr) {
    (kind_ == Kind::kFilled ? all_spare_ : chosen_spare_) = std::move(inner_);
  }
  unit_ = unit;
  rows_ = std::move(rows);
  kind_ = Kind::kPassed;
  file_.clear();
  damaged_ = false;
  mended_ = false;
  cached_bytes_ = 0;
}

void CachedDecode::fetch() {
  if (fetch_kept()) {
    kind_ = Kind::kKept;
    return;
  }
  file_.clear();
  // With nowhere to keep them there is no sense in the other columns.
  const auto& place = reader_->source().units()[unit_];
  CacheFolder& folder = reader_->cache().folder();
  const bool fill = folder.is_on() && folder.make_room(place.stored_bytes);
  kind_ = fill ? Kind::kFilled : Kind::kPassed;
  inner_ = fill ? reader_->all().start(unit_, rows_, std::move(all_spare_))
                : reader_->chosen().start(unit_, rows_, std::move(chosen_spare_));
  inner_->fetch();
  if (!fill) return;
  encoded_.assign(encode_tasks(), {});
  shapes_.assign(rows_.size(), {});
  staged_.resize(encode_tasks());
  staged_at_.assign(rows_.size(), 0);
}

void CachedDecode::take_buffers(UnitDecode& finished) {
  auto* const other = dynamic_cast<CachedDecode*>(&finished);
  if (other == nullptr || other->kind_ != kind_ || kind_ == Kind::kKept) return;
  inner_->take_buffers(*other->inner_);
}

bool CachedDecode::fetch_kept() {
  const auto& place = reader_->source().units()[unit_];
  const auto file = reader_->cache().find(place, rows_);
  if (file == nullptr) return false;
  try {
    file_ = {file};
    stored_.clear();
    for (const int64_t row : rows_) {
      RowLocation stored;
      file->find(row, stored.place);
      stored_.push_back(stored);
    }
    records_.start(rows_, stored_, file_, reader_->unpacker());
    records_.fetch();
    cached_bytes_ = records_.bytes_read();
    CacheFolder::touch(file->path());
    return true;
  } catch (const Error&) {
    // Removed for room by another process, or cut off.
    reader_->cache().drop(place, *file);
    return false;
  }
}

size_t CachedDecode::encode_tasks() const noexcept {
  return (rows_.size() + kTaskRows - 1) / kTaskRows;
}

// Kept rows: records, then mending where one is damaged. Filled: those of the source, records that
// are kept and rows that leave, and one that writes.
size_t CachedDecode::phase_count() const {
  switch (kind_) {
    case Kind::kKept:
      return 2;
    case Kind::kFilled:
      return inner_->phase_count() + 2;
    default:
      return inner_->phase_count();
  }
}

size_t CachedDecode::task_count(size_t phase) const {
  if (kind_ == Kind::kKept) return phase == 0 ? records_.task_count() : damaged_ ? 1 : 0;
  if (phase < inner_->phase_count()) return inner_->task_count(phase);
  return phase == inner_->phase_count() ? encode_tasks() : 1;
}

void CachedDecode::run(size_t phase, size_t task) {
  if (kind_ == Kind::kKept) {
    if (phase == 1) return mend();
    try {
      records_.run(task);
    } catch (const CorruptData&) {
      damaged_ = true;
    }
    return;
  }
  if (phase < inner_->phase_count()) {
    inner_->run(phase, task);
  } else if (phase == inner_->phase_count()) {
    encode(task);
  } else {
    keep();
  }
}

void CachedDecode::encode(size_t task) {
  thread_local std::vector<uint64_t> memory;  // aligned
  const RecordUnpacker& unpacker = reader_->unpacker();
  const size_t begin = task * kTaskRows;
  const size_t end = std::min(begin + kTaskRows, rows_.size());
  RowEncoder encoder(reader_->all().row_layout(), reader_->stored_columns());
  EncodedRows& encoded = encoded_[task];
  auto& staged = staged_[task];
  size_t used = 0;
  for (size_t i = begin; i < end; ++i) {
    const auto row = static_cast<uint32_t>(i);
    const size_t bytes = inner_->packed_bytes(row);
    if (memory.size() * sizeof(uint64_t) < bytes) memory.resize(bytes / sizeof(uint64_t) + 1);
    auto* const packed = reinterpret_cast<std::byte*>(memory.data());
    inner_->pack(row, packed);
    encoded.rows.push_back(rows_[i]);
    encoded.nnz.push_back(inner_->nnz(row));
    encoded.lengths.push_back(encoder.append(packed, encoded.bytes));
    const RowShape whole{inner_->nnz(row), inner_->wide_count(row)};
    const size_t most = unpacker.most_bytes(whole);
    if (staged.size() < used + most) staged.resize(std::max(used + most, staged.size() * 3 / 2));
    staged_at_[i] = used;
    shapes_[i] = unpacker.choose(whole, packed, staged.data() + used);
    used += unpacker.layout().record_bytes(shapes_[i].nnz, shapes_[i].wide_count);
  }
}

void CachedDecode::keep() {
  EncodedRows all = std::move(encoded_.front());
  for (size_t task = 1; task < encoded_.size(); ++task) {
    const EncodedRows& part = encoded_[task];
    all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
    all.nnz.insert(all.nnz.end(), part.nnz.begin(), part.nnz.end());
    all.lengths.insert(all.lengths.end(), part.lengths.begin(), part.lengths.end());
    all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
  }
  encoded_.clear();
  reader_->cache().keep(reader_->source().units()[unit_], std::move(all));
}

/// A record is damaged: the unit is fetched again, by this task alone. It is rare.
void CachedDecode::mend() {
  reader_->cache().drop(reader_->source().units()[unit_], *file_.front());
  EncodedRows encoded = reader_->refill(unit_, rows_);
  encoded.bytes.resize(encoded.bytes.size() + kRecordSlack);
  const RecordUnpacker& unpacker = reader_->unpacker();
  shapes_.assign(rows_.size(), {});
  staged_.resize(encode_tasks());
  staged_at_.assign(rows_.size(), 0);
  size_t offset = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    auto& staged = staged_[i / kTaskRows];
    if (i % kTaskRows == 0) staged.clear();
    const std::span record(encoded.bytes.data() + offset, encoded.lengths[i]);
    const RowShape whole = unpacker.shape(record);
    staged_at_[i] = staged.size();
    staged.resize(staged.size() + unpacker.most_bytes(whole));
    shapes_[i] = unpacker.unpack(record, whole, staged.data() + staged_at_[i]);
    offset += encoded.lengths[i];
  }
  mended_ = true;
}

uint32_t CachedDecode::nnz(uint32_t row) const {
  if (kind_ == Kind::kPassed) return inner_->nnz(row);
  return kind_ == Kind::kKept && !mended_ ? records_.nnz(row) : shapes_[row].nnz;
}

uint32_t CachedDecode::wide_count(uint32_t row) const {
  if (kind_ == Kind::kPassed) return inner_->wide_count(row);
  return kind_ == Kind::kKept && !mended_ ? records_.wide_count(row) : shapes_[row].wide_count;
}

size_t CachedDecode::packed_bytes(uint32_t row) const {
  return reader_->row_layout().record_bytes(nnz(row), wide_count(row));
}

void CachedDecode::pack(uint32_t row, std::byte* destination) const {
  if (kind_ == Kind::kPassed) {
    inner_->pack(row, destination);
  } else if (kind_ == Kind::kKept && !mended_) {
    records_.pack(row, destination);
  } else {
    std::memcpy(destination, staged_[row / kTaskRows].data() + staged_at_[row], packed_bytes(row));
  }
}

uint64_t CachedDecode::bytes_read() const {
  return kind_ == Kind::kKept ? 0 : inner_->bytes_read();
}

}  // namespace penstock::format::pack
