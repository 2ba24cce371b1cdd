#include "format/joined/reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "format/check_columns.h"
#include "format/joined/row_reader.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

bool same(const kernel::PackedRowLayout& a, const kernel::PackedRowLayout& b) {
  return a.index_bytes == b.index_bytes && a.value_type == b.value_type;
}

/// Chosen columns of a part, ascending as stored, and their output columns.
JoinedReader::Part choose(const JoinedPart& part, std::span<const int64_t> columns) {
  std::vector<int64_t> stored;
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < part.columns.size(); ++i) {
    const auto joined = int64_t{part.joined_columns[i]};
    const auto found = std::lower_bound(columns.begin(), columns.end(), joined);
    if (found == columns.end() || *found != joined) continue;
    stored.push_back(part.columns[i]);
    numbers.push_back(static_cast<uint32_t>(found - columns.begin()));
  }
  return {part.source->reader(stored), kernel::ColumnNumbers(std::move(numbers))};
}

}  // namespace

size_t JoinedMatrix::part_of(uint32_t unit) const {
  if (unit >= units.size()) throw InvalidArgument(concat("no fetch unit ", unit));
  const auto after = std::upper_bound(first_unit.begin(), first_unit.end(), size_t{unit});
  return static_cast<size_t>(after - first_unit.begin()) - 1;
}

JoinedReader::JoinedReader(std::shared_ptr<const JoinedMatrix> matrix,
                           std::span<const int64_t> columns)
    : matrix_(std::move(matrix)),
      layout_(kernel::make_row_layout(columns.size(), matrix_->info.value_type)) {
  check_columns(columns, matrix_->info.column_domain_end);
  for (const JoinedPart& part : matrix_->parts) {
    parts_.push_back(choose(part, columns));
    parts_.back().same_layout = same(parts_.back().reader->row_layout(), layout_);
  }
}

std::unique_ptr<UnitDecode> JoinedReader::start(uint32_t unit, std::vector<int64_t> rows,
                                                std::unique_ptr<UnitDecode> recycled) const {
  const size_t part = matrix_->part_of(unit);
  for (int64_t& row : rows) row -= matrix_->parts[part].row_offset;
  std::unique_ptr<UnitDecode> own;  // of any part: the part's reader sees if it is of use
  if (auto* joined = dynamic_cast<JoinedDecode*>(recycled.get())) own = joined->release();
  return std::make_unique<JoinedDecode>(
      shared_from_this(), part,
      parts_[part].reader->start(matrix_->unit_of_part[unit], std::move(rows), std::move(own)));
}

uint64_t JoinedReader::in_flight_bytes(uint32_t unit) const {
  return parts_[matrix_->part_of(unit)].reader->in_flight_bytes(matrix_->unit_of_part[unit]);
}

uint64_t JoinedReader::fetched_bytes(uint32_t unit) const {
  return parts_[matrix_->part_of(unit)].reader->fetched_bytes(matrix_->unit_of_part[unit]);
}

bool JoinedReader::remote() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.reader->remote(); });
}

double JoinedReader::packed_bytes_per_cell_of_part(size_t index) const {
  const Part& part = parts_[index];
  const double bytes = part.reader->packed_bytes_per_cell();
  if (part.same_layout) return bytes;
  return bytes * kernel::most_growth(part.reader->row_layout(), layout_);
}

double JoinedReader::packed_bytes_per_cell() const {
  double most = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    most = std::max(most, packed_bytes_per_cell_of_part(i));
  }
  return most;
}

double JoinedReader::packed_bytes_per_cell_of(uint32_t unit) const {
  return packed_bytes_per_cell_of_part(matrix_->part_of(unit));
}

uint64_t JoinedReader::bytes_needed(const RowSelection& rows) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const JoinedPart& part = matrix_->parts[i];
    const auto own = rows & RowSelection::range(part.row_offset, part.row_offset + part.row_end);
    if (own.empty()) continue;
    bytes += parts_[i].reader->bytes_needed(own.shifted(-part.row_offset));
  }
  return bytes;
}

uint64_t JoinedReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const size_t index = matrix_->part_of(unit);
  const int64_t offset = matrix_->parts[index].row_offset;
  const plan::FetchUnit& place = matrix_->units[unit];
  const auto own = rows & RowSelection::range(place.row_begin, place.row_end);
  return parts_[index].reader->visit_bytes(matrix_->unit_of_part[unit], own.shifted(-offset));
}

RowReaderPtr JoinedReader::row_reader(const RowSelection& rows) const {
  std::vector<RowReaderPtr> readers(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    const JoinedPart& part = matrix_->parts[i];
    const auto own = rows & RowSelection::range(part.row_offset, part.row_offset + part.row_end);
    if (own.empty()) continue;
    readers[i] = parts_[i].reader->row_reader(own.shifted(-part.row_offset));
    if (readers[i] == nullptr) return nullptr;
  }
  return std::make_shared<JoinedRowReader>(matrix_, shared_from_this(), std::move(readers));
}

size_t JoinedDecode::packed_bytes(uint32_t row) const {
  if (reader_->part(part_).same_layout) return decode_->packed_bytes(row);
  return reader_->row_layout().record_bytes(decode_->nnz(row), decode_->wide_count(row));
}

void JoinedDecode::pack(uint32_t row, std::byte* destination) const {
  const JoinedReader::Part& part = reader_->part(part_);
  if (part.same_layout && part.numbers.ascending) {
    decode_->pack(row, destination);
    if (!part.numbers.identity) {
      kernel::renumber_row(reader_->row_layout(), part.numbers, destination);
    }
    return;
  }
  // One for each thread: many threads pack rows at once.
  thread_local kernel::RepackScratch scratch;
  thread_local std::vector<uint64_t> record;  // aligned
  const size_t bytes = decode_->packed_bytes(row);
  if (record.size() * sizeof(uint64_t) < bytes) record.resize(bytes / sizeof(uint64_t) + 1);
  auto* const packed = reinterpret_cast<std::byte*>(record.data());
  decode_->pack(row, packed);
  kernel::repack_row(part.reader->row_layout(), packed, part.numbers, reader_->row_layout(),
                     destination, scratch);
}

}  // namespace penstock::format
