#include "format/cache/kept_unit.h"

#include <penstock/error.h>

#include <utility>

#include "format/cache/cached_source.h"

namespace penstock::format::pack {

void KeptUnit::start(uint32_t unit, std::span<const int64_t> rows,
                     std::shared_ptr<const RowFile> file) {
  unit_ = unit;
  rows_ = rows;
  file_ = std::move(file);
  damaged_ = false;
  repaired_ = false;
  stored_.clear();
  for (const int64_t row : rows) {
    RowLocation stored;
    file_->find(row, stored.place);
    stored_.push_back(stored);
  }
  records_.start(rows_, stored_, std::span(&file_, 1), reader_.unpacker());
}

void KeptUnit::run(size_t phase, size_t task) {
  if (phase == 1) return repair();
  try {
    records_.run(task);
  } catch (const CorruptData&) {
    damaged_ = true;
  }
}

/// Reads the unit again, in this task alone, because a record is damaged. Rare.
void KeptUnit::repair() {
  reader_.cache().drop(reader_.source().units()[unit_], *file_);
  EncodedRows encoded = reader_.refill(unit_, {rows_.begin(), rows_.end()});
  encoded.bytes.resize(encoded.bytes.size() + kRecordSlack);
  const RecordUnpacker& unpacker = reader_.unpacker();
  staged_.reset(rows_.size());
  size_t offset = 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const std::span record(encoded.bytes.data() + offset, encoded.lengths[row]);
    const RowShape whole = unpacker.shape(record);
    staged_.add(row, unpacker.most_bytes(whole), unpacker.layout(),
                [&](std::byte* to) { return unpacker.unpack(record, whole, to); });
    offset += encoded.lengths[row];
  }
  repaired_ = true;
}

size_t KeptUnit::packed_bytes(uint32_t row) const {
  return reader_.row_layout().record_bytes(nnz(row), wide_count(row));
}

void KeptUnit::pack(uint32_t row, std::byte* destination) const {
  if (repaired_) {
    staged_.copy(row, reader_.row_layout(), destination);
  } else {
    records_.pack(row, destination);
  }
}

}  // namespace penstock::format::pack
