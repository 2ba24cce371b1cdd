#include "format/beside/reader.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "format/beside/row_reader.h"
#include "format/check_columns.h"
#include "kernel/pack_row.h"

namespace penstock::format {

BesideReader::BesideReader(std::shared_ptr<const BesideMatrix> matrix,
                           std::span<const int64_t> columns)
    : matrix_(std::move(matrix)),
      layout_(kernel::make_row_layout(columns.size(), matrix_->info.value_type)) {
  check_columns(columns, matrix_->info.column_domain_end);
  auto begin = columns.begin();
  for (size_t i = 0; i < matrix_->parts.size(); ++i) {
    const auto end = std::lower_bound(begin, columns.end(), matrix_->first_column[i + 1]);
    std::vector<int64_t> own(begin, end);
    for (int64_t& column : own) column -= matrix_->first_column[i];
    const auto first = static_cast<uint32_t>(begin - columns.begin());
    begin = end;
    // Without a chosen column nothing of a part is read.
    if (own.empty()) continue;
    const MatrixSource& source = *matrix_->parts[i];
    parts_.push_back({i, source.reader(own), first, source.info().row_domain_end});
  }
}

std::unique_ptr<UnitDecode> BesideReader::start(uint32_t unit, std::vector<int64_t> rows,
                                                std::unique_ptr<UnitDecode> recycled) const {
  auto* finished = dynamic_cast<BesideDecode*>(recycled.get());
  if (finished != nullptr && finished->reader() != this) finished = nullptr;
  const auto units = matrix_->units_of(unit);
  std::vector<BesideDecode::Part> decodes;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    BesideDecode::Part own{nullptr, part.reader->row_layout(), part.first_column};
    if (units[part.index] != kNoUnit) {
      own.decode = part.reader->start(units[part.index], rows,
                                      finished != nullptr ? finished->release(i) : nullptr);
    }
    decodes.push_back(std::move(own));
  }
  return std::make_unique<BesideDecode>(shared_from_this(), static_cast<uint32_t>(rows.size()),
                                        std::move(decodes));
}

uint64_t BesideReader::sum(uint32_t unit,
                           const std::function<uint64_t(const Part&, uint32_t)>& bytes) const {
  const auto units = matrix_->units_of(unit);
  const plan::FetchUnit& piece = matrix_->units[unit];
  uint64_t total = 0;
  for (const Part& part : parts_) {
    const uint32_t own = units[part.index];
    if (own == kNoUnit) continue;
    const plan::FetchUnit& whole = matrix_->parts[part.index]->units()[own];
    const auto read = [&](const plan::FetchUnit& rows) {
      return static_cast<double>(
          part.reader->visit_bytes(own, RowSelection::range(rows.row_begin, rows.row_end)));
    };
    const double all = read(whole);
    const double share = all == 0 ? 1 : std::min(1.0, read(piece) / all);
    total += static_cast<uint64_t>(std::ceil(static_cast<double>(bytes(part, own)) * share));
  }
  return total;
}

uint64_t BesideReader::in_flight_bytes(uint32_t unit) const {
  return sum(unit,
             [](const Part& part, uint32_t own) { return part.reader->in_flight_bytes(own); });
}

uint64_t BesideReader::fetched_bytes(uint32_t unit) const {
  return sum(unit, [](const Part& part, uint32_t own) { return part.reader->fetched_bytes(own); });
}

bool BesideReader::remote() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.reader->remote(); });
}

/// `bytes` of the part's own layout, in that of the merged rows.
double BesideReader::packed_bytes_per_cell(const Part& part, double bytes) const {
  return bytes * kernel::most_merged_growth(part.reader->row_layout(), layout_);
}

double BesideReader::packed_bytes_per_cell() const {
  double bytes = 0;
  uint64_t cells = 0;
  for (const Part& part : parts_) {
    const uint64_t own = matrix_->parts[part.index]->info().stored_cells;
    bytes += packed_bytes_per_cell(part, part.reader->packed_bytes_per_cell()) *
             static_cast<double>(own);
  }
  for (const MatrixSourcePtr& part : matrix_->parts) cells += part->info().stored_cells;
  return cells == 0 ? 0 : bytes / static_cast<double>(cells);
}

double BesideReader::packed_bytes_per_cell_of(uint32_t unit) const {
  const auto units = matrix_->units_of(unit);
  const plan::FetchUnit& piece = matrix_->units[unit];
  double bytes = 0;
  for (const Part& part : parts_) {
    const uint32_t own = units[part.index];
    if (own == kNoUnit) continue;
    const plan::FetchUnit& whole = matrix_->parts[part.index]->units()[own];
    const double rows = static_cast<double>(piece.row_end - piece.row_begin) /
                        static_cast<double>(whole.row_end - whole.row_begin);
    bytes += packed_bytes_per_cell(part, part.reader->packed_bytes_per_cell_of(own)) *
             static_cast<double>(whole.cell_bound) * rows;
  }
  return piece.cell_bound == 0 ? 0 : bytes / static_cast<double>(piece.cell_bound);
}

uint64_t BesideReader::bytes_needed(const RowSelection& rows) const {
  return std::accumulate(parts_.begin(), parts_.end(), uint64_t{0},
                         [&](uint64_t bytes, const Part& part) {
                           const RowSelection own = rows & RowSelection::range(0, part.row_end);
                           return own.empty() ? bytes : bytes + part.reader->bytes_needed(own);
                         });
}

uint64_t BesideReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const auto units = matrix_->units_of(unit);
  const plan::FetchUnit& place = matrix_->units[unit];
  const RowSelection own = rows & RowSelection::range(place.row_begin, place.row_end);
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    if (units[part.index] != kNoUnit) bytes += part.reader->visit_bytes(units[part.index], own);
  }
  return bytes;
}

RowReaderPtr BesideReader::row_reader(const RowSelection& rows) const {
  std::vector<RowReaderPtr> readers;
  for (const Part& part : parts_) {
    readers.push_back(part.reader->row_reader(rows & RowSelection::range(0, part.row_end)));
    if (readers.back() == nullptr) return nullptr;
  }
  if (readers.empty()) return nullptr;
  return std::make_shared<BesideRowReader>(shared_from_this(), std::move(readers));
}

// ---- a unit -------------------------------------------------------------------------------------

void BesideDecode::fetch() {
  for (const Part& part : parts_) {
    if (part.decode != nullptr) part.decode->fetch();
  }
}

size_t BesideDecode::phase_count() const {
  size_t most = 0;
  for (const Part& part : parts_) {
    if (part.decode != nullptr) most = std::max(most, part.decode->phase_count());
  }
  return most;
}

size_t BesideDecode::task_count(size_t phase) const {
  size_t tasks = 0;
  for (const Part& part : parts_) {
    if (part.decode != nullptr && phase < part.decode->phase_count()) {
      tasks += part.decode->task_count(phase);
    }
  }
  return tasks;
}

void BesideDecode::run(size_t phase, size_t task) {
  for (const Part& part : parts_) {
    if (part.decode == nullptr || phase >= part.decode->phase_count()) continue;
    const size_t own = part.decode->task_count(phase);
    if (task < own) return part.decode->run(phase, task);
    task -= own;
  }
}

kernel::PackedRowHeader BesideDecode::header(uint32_t row) const {
  kernel::PackedRowHeader header;
  for (const Part& part : parts_) {
    if (part.decode == nullptr) continue;
    header = kernel::merged_header(header, {part.decode->nnz(row), part.decode->wide_count(row)});
  }
  return header;
}

uint32_t BesideDecode::nnz(uint32_t row) const {
  uint32_t nnz = 0;
  for (const Part& part : parts_) {
    if (part.decode != nullptr) nnz += part.decode->nnz(row);
  }
  return nnz;
}

size_t BesideDecode::packed_bytes(uint32_t row) const {
  const kernel::PackedRowHeader merged = header(row);
  return reader_->row_layout().record_bytes(merged.nnz, merged.wide_count);
}

void BesideDecode::pack(uint32_t row, std::byte* destination) const {
  // One for each thread: many threads pack rows at once.
  thread_local std::vector<uint64_t> memory;  // aligned
  thread_local std::vector<kernel::RowPart> records;
  size_t bytes = 0;
  for (const Part& part : parts_) {
    if (part.decode != nullptr) bytes += part.decode->packed_bytes(row);
  }
  if (memory.size() * sizeof(uint64_t) < bytes) memory.resize(bytes / sizeof(uint64_t) + 1);
  records.clear();
  auto* record = reinterpret_cast<std::byte*>(memory.data());
  for (const Part& part : parts_) {
    if (part.decode == nullptr || part.decode->nnz(row) == 0) continue;
    part.decode->pack(row, record);
    records.push_back({record, part.layout, part.first_column});
    record += part.decode->packed_bytes(row);
  }
  kernel::merge_rows(records, reader_->row_layout(), destination);
}

uint64_t BesideDecode::bytes_read() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.decode != nullptr ? part.decode->bytes_read() : 0;
  return bytes;
}

uint64_t BesideDecode::read_count() const {
  uint64_t reads = 0;
  for (const Part& part : parts_) reads += part.decode != nullptr ? part.decode->read_count() : 0;
  return reads;
}

uint64_t BesideDecode::cached_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.decode != nullptr ? part.decode->cached_bytes() : 0;
  return bytes;
}

void BesideDecode::take_buffers(UnitDecode& finished) {
  auto* const other = dynamic_cast<BesideDecode*>(&finished);
  if (other == nullptr || other->reader() != reader()) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].decode != nullptr && other->parts_[i].decode != nullptr) {
      parts_[i].decode->take_buffers(*other->parts_[i].decode);
    }
  }
}

}  // namespace penstock::format
