#include "format/soma/x/dense/dense_reader.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"
#include "format/unit_rows.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {

XDenseReader::XDenseReader(std::shared_ptr<const XDenseArray> array,
                           std::span<const int64_t> columns)
    : array_(std::move(array)),
      columns_(columns.begin(), columns.end()),
      map_(columns, array_->info().column_domain_end),
      layout_(kernel::make_row_layout(columns.size(), array_->info().value_type)) {}

std::unique_ptr<UnitDecode> XDenseReader::start(uint32_t unit, std::vector<int64_t> rows,
                                                std::unique_ptr<UnitDecode> recycled) const {
  check_unit_rows(array_->units(), unit, rows);
  auto decode = recycle_or_make<XDenseDecode>(std::move(recycled), shared_from_this());
  decode->start(std::move(rows));
  return decode;
}

uint64_t XDenseReader::in_flight_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  const auto rows =
      static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, int64_t{1} << 20));
  return place.stored_bytes + rows * columns_.size() * layout_.value_bytes;
}

double XDenseReader::packed_bytes_per_cell() const {
  return packed_bytes_.get([&] { return sample_packed_bytes(); });
}

// Packed bytes of a few rows of a few units, divided by the stored cells of those rows.
double XDenseReader::sample_packed_bytes() const {
  constexpr size_t kUnits = 4;
  constexpr int64_t kRows = 64;
  const auto& units = array_->units();
  const size_t step = std::max<size_t>(1, units.size() / kUnits);
  double packed = 0, cells = 0;
  std::unique_ptr<UnitDecode> decode;
  for (size_t unit = 0; unit < units.size(); unit += step) {
    if (units[unit].cell_bound == 0) continue;
    std::vector<int64_t> rows;
    const int64_t all = units[unit].row_end - units[unit].row_begin;
    for (int64_t i = 0; i < std::min(kRows, all); ++i) {
      rows.push_back(units[unit].row_begin + i * all / std::min(kRows, all));
    }
    cells += static_cast<double>(units[unit].cell_bound) * static_cast<double>(rows.size()) /
             static_cast<double>(all);
    decode = start(static_cast<uint32_t>(unit), std::move(rows), std::move(decode));
    decode->fetch();
    for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
      for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
    }
    for (uint32_t row = 0; row < decode->row_count(); ++row) {
      packed += static_cast<double>(decode->packed_bytes(row) - sizeof(kernel::PackedRowHeader));
    }
  }
  return cells == 0 ? layout_.index_bytes + 1.0 : packed / cells;
}

uint64_t XDenseReader::bytes_needed(const RowSelection& rows) const {
  return bytes_of(rows, {0, array_->info().row_domain_end - 1, 0, 0});
}

uint64_t XDenseReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  return bytes_of(rows, {place.row_begin, place.row_end - 1, 0, 0});
}

/// Stored bytes of the tiles that hold rows of `rows` from the first to the last row of `within`.
uint64_t XDenseReader::bytes_of(const RowSelection& rows, const XBox& within) const {
  uint64_t bytes = 0;
  if (within.row_first > within.row_last) return bytes;
  for (const XDenseFragment& fragment : array_->fragments()) {
    const int64_t begin = std::max(fragment.grid_row, array_->grid_row_of(within.row_first));
    const int64_t end =
        std::min(fragment.grid_row + fragment.grid_rows, array_->grid_row_of(within.row_last) + 1);
    for (int64_t r = begin; r < end; ++r) {
      const XBox band = intersect(fragment.written, array_->box_of(r, fragment.grid_column));
      if (!rows.intersects(std::max(band.row_first, within.row_first),
                           std::min(band.row_last, within.row_last) + 1)) {
        continue;
      }
      for (int64_t c = fragment.grid_column; c < fragment.grid_column + fragment.grid_columns;
           ++c) {
        const XBox box = intersect(fragment.written, array_->box_of(r, c));
        if (box.empty() || !map_.touches(box.column_first, box.column_last)) continue;
        bytes += fragment.metadata
                     ->tile_range(*fragment.field, tiledb::TilePart::kData,
                                  array_->tile_number(fragment, r, c))
                     .length;
      }
    }
  }
  return bytes;
}

}  // namespace penstock::format::soma
