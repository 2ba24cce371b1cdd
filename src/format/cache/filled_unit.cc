#include "format/cache/filled_unit.h"

#include <algorithm>
#include <utility>

#include "format/cache/cached_source.h"

namespace penstock::format::pack {

void FilledUnit::start(uint32_t unit, std::span<const int64_t> rows) {
  unit_ = unit;
  rows_ = rows;
  inner_ = reader_.all().start(unit, {rows.begin(), rows.end()}, std::move(inner_));
  staged_.reset(rows.size());
  encoded_.assign(staged_.block_count(), {});
}

size_t FilledUnit::task_count(size_t phase) const {
  if (phase < inner_->phase_count()) return inner_->task_count(phase);
  return phase == inner_->phase_count() ? staged_.block_count() : 1;
}

void FilledUnit::run(size_t phase, size_t task) {
  if (phase < inner_->phase_count()) {
    inner_->run(phase, task);
  } else if (phase == inner_->phase_count()) {
    encode(task);
  } else {
    keep();
  }
}

void FilledUnit::encode(size_t block) {
  thread_local std::vector<uint64_t> memory;  // aligned
  const RecordUnpacker& unpacker = reader_.unpacker();
  const size_t begin = block * StagedRows::kBlockRows;
  const size_t end = std::min(begin + StagedRows::kBlockRows, rows_.size());
  RowEncoder encoder(reader_.all().row_layout(), reader_.stored_columns());
  EncodedRows& encoded = encoded_[block];
  for (size_t i = begin; i < end; ++i) {
    const auto row = static_cast<uint32_t>(i);
    const size_t bytes = inner_->packed_bytes(row);
    if (memory.size() * sizeof(uint64_t) < bytes) memory.resize(bytes / sizeof(uint64_t) + 1);
    auto* const packed = reinterpret_cast<std::byte*>(memory.data());
    inner_->pack(row, packed);
    const RowShape whole{inner_->nnz(row), inner_->wide_count(row)};
    encoded.rows.push_back(rows_[i]);
    encoded.nnz.push_back(whole.nnz);
    encoded.lengths.push_back(encoder.append(packed, encoded.bytes));
    staged_.add(i, unpacker.most_bytes(whole), unpacker.layout(),
                [&](std::byte* to) { return unpacker.choose(whole, packed, to); });
  }
}

void FilledUnit::keep() {
  EncodedRows all;
  for (EncodedRows& part : encoded_) {
    if (all.rows.empty()) {
      all = std::move(part);
      continue;
    }
    all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
    all.nnz.insert(all.nnz.end(), part.nnz.begin(), part.nnz.end());
    all.lengths.insert(all.lengths.end(), part.lengths.begin(), part.lengths.end());
    all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
  }
  encoded_.clear();
  reader_.cache().keep(reader_.source().units()[unit_], std::move(all));
}

size_t FilledUnit::packed_bytes(uint32_t row) const {
  return reader_.row_layout().record_bytes(nnz(row), wide_count(row));
}

void FilledUnit::pack(uint32_t row, std::byte* destination) const {
  staged_.copy(row, reader_.row_layout(), destination);
}

void FilledUnit::take_buffers(UnitDecode& finished) {
  if (auto* const other = dynamic_cast<FilledUnit*>(&finished)) {
    inner_->take_buffers(*other->inner_);
  }
}

}  // namespace penstock::format::pack
