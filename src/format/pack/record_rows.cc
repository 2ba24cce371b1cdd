#include "format/pack/record_rows.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "format/pack/record_runs.h"

namespace penstock::format::pack {
namespace {

constexpr size_t kTaskRows = 64;
/// Reading a gap of this size in vain costs less than another read.
constexpr uint64_t kUnitGap = uint64_t{64} << 10;

}  // namespace

std::string record_place(int64_t row, const RowLocation& stored, const RowFile& file) {
  return "row " + std::to_string(row) + " at offset " + std::to_string(stored.place.offset) +
         " of " + file.path();
}

void RecordRows::start(std::span<const int64_t> rows, std::span<const RowLocation> stored,
                       std::span<const std::shared_ptr<const RowFile>> files,
                       const RecordUnpacker& unpacker) {
  rows_ = rows;
  stored_ = stored;
  files_ = files;
  unpacker_ = &unpacker;
  records_.assign(rows.size(), nullptr);
  shapes_.assign(rows.size(), {});
  staged_at_.assign(rows.size(), 0);
  staged_.resize(task_count());
  bytes_read_ = 0;
  read_count_ = 0;
}

void RecordRows::fetch() {
  const auto runs = runs_of(stored_, files_, kUnitGap);
  read_count_ = runs.size();
  if (reads_.size() < runs.size()) reads_.resize(runs.size());
  to_.clear();
  for (size_t i = 0; i < runs.size(); ++i) {
    const RecordRun& run = runs[i];
    reads_[i].resize_discard(run.length + kRecordSlack);
    to_.push_back(reads_[i].data());
    std::memset(reads_[i].data() + run.length, 0, kRecordSlack);
    bytes_read_ += run.length;
    for (size_t row = run.begin; row < run.end; ++row) {
      if (stored_[row].place.length == 0) continue;
      records_[row] = reads_[i].data() + (stored_[row].place.offset - run.offset);
    }
  }
  read_runs(runs, files_, to_);
}

std::span<const std::byte> RecordRows::record(size_t row) const {
  return {records_[row], stored_[row].place.length};
}

std::string RecordRows::place(size_t row) const {
  return record_place(rows_[row], stored_[row], *files_[stored_[row].file]);
}

size_t RecordRows::task_count() const noexcept {
  return (rows_.size() + kTaskRows - 1) / kTaskRows;
}

void RecordRows::run(size_t task) {
  const size_t begin = task * kTaskRows;
  const size_t end = std::min(begin + kTaskRows, rows_.size());
  for (size_t row = begin; row < end; ++row) {
    with_place(
        [&] {
          unpacker_->check(record(row));
          shapes_[row] = unpacker_->shape(record(row));
        },
        [&] { return place(row); });
  }
  if (unpacker_->all_columns()) return;
  auto& staged = staged_[task];
  size_t used = 0;
  for (size_t row = begin; row < end; ++row) {
    const size_t most = unpacker_->most_bytes(shapes_[row]);
    if (staged.size() < used + most) staged.resize(std::max(used + most, staged.size() * 3 / 2));
    staged_at_[row] = used;
    shapes_[row] = with_place(
        [&] { return unpacker_->unpack(record(row), shapes_[row], staged.data() + used); },
        [&] { return place(row); });
    used += packed_bytes(static_cast<uint32_t>(row));
  }
}

void RecordRows::pack(uint32_t row, std::byte* destination) const {
  if (unpacker_->all_columns()) {
    with_place([&] { unpacker_->unpack(record(row), shapes_[row], destination); },
               [&] { return place(row); });
  } else {
    std::memcpy(destination, staged_[row / kTaskRows].data() + staged_at_[row], packed_bytes(row));
  }
}

}  // namespace penstock::format::pack
