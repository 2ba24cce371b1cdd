#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/concat.h"
#include "format/soma/x/dense/dense_reader.h"
#include "io/range_coalescing.h"

namespace penstock::format::soma {
namespace {

constexpr size_t kCountRows = 64;

}  // namespace

void XDenseDecode::start(std::vector<int64_t> rows) {
  rows_ = std::move(rows);
  block_.resize(rows_.size(), 0, reader_->row_layout());
  bytes_read_ = 0;
  find_parts();
}

// The grid's tiles under the chosen rows and columns.
void XDenseDecode::find_parts() {
  parts_.clear();
  stored_.clear();
  const XDenseArray& array = reader_->array();
  const auto columns = reader_->columns();
  for (size_t row = 0; row < rows_.size();) {
    Part part;
    part.grid_row = array.grid_row_of(rows_[row]);
    part.row_begin = row;
    while (row < rows_.size() && array.grid_row_of(rows_[row]) == part.grid_row) ++row;
    part.row_end = row;
    for (size_t column = 0; column < columns.size();) {
      part.grid_column = array.grid_column_of(columns[column]);
      part.column_begin = column;
      const int64_t end = array.tile_column(part.grid_column + 1);
      column = static_cast<size_t>(std::lower_bound(columns.begin(), columns.end(), end) -
                                   columns.begin());
      part.column_end = column;
      parts_.push_back(part);
    }
  }
}

void XDenseDecode::fetch() {
  reads_.clear();
  requests_.clear();
  for (size_t i = 0; i < reader_->array().fragments().size(); ++i) plan_fragment(i);
  reader_->array().store().read_many(requests_);
  std::stable_sort(stored_.begin(), stored_.end(),
                   [](const Stored& a, const Stored& b) { return a.part < b.part; });
  block_.resize(rows_.size(), reader_->columns().size(), reader_->row_layout());
}

void XDenseDecode::plan_fragment(size_t number) {
  const XDenseArray& array = reader_->array();
  const XDenseFragment& fragment = array.fragments()[number];
  std::vector<io::ByteRange> wanted;
  const size_t first = stored_.size();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (!array.has_tile(fragment, part.grid_row, part.grid_column)) continue;
    const uint64_t tile = array.tile_number(fragment, part.grid_row, part.grid_column);
    wanted.push_back(fragment.metadata->tile_range(*fragment.field, tiledb::TilePart::kData, tile));
    stored_.push_back({i, number, tile, {}});
  }
  const auto plan = io::coalesce(wanted, array.store().traits().coalescing);
  const size_t first_read = reads_.size();
  for (const io::ByteRange& range : plan.reads) {
    reads_.emplace_back(range.length);
    requests_.push_back({fragment.path, range.offset, reads_.back().span()});
    bytes_read_ += range.length;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].length == 0) continue;
    stored_[first + i].bytes = std::as_const(reads_[first_read + plan.pieces[i].read])
                                   .span()
                                   .subspan(plan.pieces[i].offset, wanted[i].length);
  }
}

size_t XDenseDecode::task_count(size_t phase) const {
  if (phase == 0) return parts_.size();
  return reader_->columns().empty() ? 0 : (rows_.size() + kCountRows - 1) / kCountRows;
}

void XDenseDecode::run(size_t phase, size_t task) {
  if (phase == 0) {
    fill(parts_[task]);
    const auto begin =
        std::lower_bound(stored_.begin(), stored_.end(), task,
                         [](const Stored& stored, size_t part) { return stored.part < part; });
    for (auto at = begin; at != stored_.end() && at->part == task; ++at) {
      const XDenseFragment& fragment = reader_->array().fragments()[at->fragment];
      with_place([&] { decode(parts_[task], *at); },
                 [&] {
                   return "tile " + std::to_string(at->tile) + " of fragment " +
                          fragment.metadata->location().path;
                 });
    }
    return;
  }
  block_.count(task * kCountRows, std::min(rows_.size(), (task + 1) * kCountRows));
}

void XDenseDecode::fill(const Part& part) {
  const auto value = reader_->array().fill_value();
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    for (size_t column = part.column_begin; column < part.column_end; ++column) {
      std::memcpy(block_.cell(row, column), value.data(), value_bytes_);
    }
  }
}

// Copies the written cells of one fragment's tile over older ones.
void XDenseDecode::decode(const Part& part, const Stored& stored) {
  const XDenseArray& array = reader_->array();
  const XDenseFragment& fragment = array.fragments()[stored.fragment];
  thread_local XCellScratch scratch;
  thread_local Buffer tile;
  const uint64_t cells = array.tile_cells();
  if (fragment.field->filters->decoded_bytes(stored.bytes) != cells * value_bytes_) {
    throw CorruptData(concat("tile of ", fragment.field->name, " does not hold ", cells, " cells"));
  }
  tile.resize_discard(cells * value_bytes_);
  decode_tile_cells(*fragment.field, fragment.metadata->footer().format_version, stored.bytes,
                    cells, tile.span(), scratch);
  const auto columns = reader_->columns();
  const int64_t first_row = array.tile_row(part.grid_row);
  const int64_t first_column = array.tile_column(part.grid_column);
  const bool row_major = array.cells_row_major();
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    if (rows_[row] < fragment.written.row_first || rows_[row] > fragment.written.row_last) continue;
    const int64_t r = rows_[row] - first_row;
    for (size_t column = part.column_begin; column < part.column_end; ++column) {
      if (columns[column] < fragment.written.column_first ||
          columns[column] > fragment.written.column_last) {
        continue;
      }
      const int64_t c = columns[column] - first_column;
      const auto from = static_cast<size_t>(row_major ? r * array.column_extent() + c
                                                      : c * array.row_extent() + r);
      std::memcpy(block_.cell(row, column), tile.data() + from * value_bytes_, value_bytes_);
    }
  }
}

}  // namespace penstock::format::soma
