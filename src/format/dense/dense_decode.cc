#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "format/chunked/swap_bytes.h"
#include "format/dense/dense_reader.h"

namespace penstock::format {
namespace {

constexpr size_t kCountRows = 64;

}  // namespace

void DenseDecode::start(std::vector<int64_t> rows) {
  rows_ = std::move(rows);
  bytes_read_ = 0;
  stored_.reset();
  block_.resize(rows_.size(), 0, reader_->row_layout());
  find_parts();
}

void DenseDecode::find_parts() {
  parts_.clear();
  const DenseMatrix& matrix = reader_->matrix();
  const auto columns = reader_->columns();
  for (size_t row = 0; row < rows_.size();) {
    const int64_t grid_row = rows_[row] / matrix.chunk_rows();
    const size_t row_begin = row;
    while (row < rows_.size() && rows_[row] / matrix.chunk_rows() == grid_row) ++row;
    for (size_t column = 0; column < columns.size();) {
      const int64_t grid_column = columns[column] / matrix.chunk_columns();
      Part part;
      part.chunk = static_cast<uint64_t>(grid_row * matrix.grid_columns() + grid_column);
      part.first_row = grid_row * matrix.chunk_rows();
      part.first_column = grid_column * matrix.chunk_columns();
      part.row_begin = row_begin;
      part.row_end = row;
      part.column_begin = column;
      column = static_cast<size_t>(std::lower_bound(columns.begin(), columns.end(),
                                                    part.first_column + matrix.chunk_columns()) -
                                   columns.begin());
      part.column_end = column;
      parts_.push_back(std::move(part));
    }
  }
}

// Neighbours in an object are read together: rows of a matrix without chunks are chunks of a row.
void DenseDecode::fetch() {
  const chunked::Array& array = reader_->matrix().array();
  array.expect_unchanged();
  std::vector<uint64_t> chunks;
  for (const Part& part : parts_) chunks.push_back(part.chunk);
  auto places = array.places(chunks);
  std::vector<chunked::WantedBytes> wanted(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    chunked::ChunkPlace& place = parts_[i].place = std::move(places[i]);
    if (place.absent()) continue;
    chunked::expect_backed(array.info(), place);
    wanted[i] = {&place.path, {place.offset, place.length}};
    bytes_read_ += place.length;
  }
  stored_.emplace(array.store(), wanted);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i].stored = stored_->bytes(i);
  block_.resize(rows_.size(), reader_->columns().size(), reader_->row_layout());
}

size_t DenseDecode::task_count(size_t phase) const {
  return phase == 0 ? parts_.size() : (rows_.size() + kCountRows - 1) / kCountRows;
}

void DenseDecode::run(size_t phase, size_t task) {
  if (phase == 1) {
    block_.count(task * kCountRows, std::min(rows_.size(), (task + 1) * kCountRows));
    return;
  }
  with_place([&] { decode(parts_[task]); },
             [&] {
               return concat("chunk ", parts_[task].chunk, " of ",
                             reader_->matrix().array().info().path);
             });
}

void DenseDecode::decode(Part& part) {
  thread_local codec::ChunkScratch scratch;
  thread_local Buffer chunk;
  const DenseMatrix& matrix = reader_->matrix();
  const chunked::ArrayInfo& info = matrix.array().info();
  const size_t cell = info.cell_bytes;
  if (!part.place.absent()) {
    chunk.resize_discard(info.decoded_bytes());
    info.pipeline.decode(part.stored, part.place.skipped_filters, chunk.span(), scratch);
    if (info.big_endian && cell > 1) {
      Buffer swapped;
      chunked::to_little_endian({std::as_const(chunk).span(), false}, static_cast<uint32_t>(cell),
                                swapped);
      std::swap(chunk, swapped);
    }
  }
  const auto columns = reader_->columns();
  const size_t count = part.column_end - part.column_begin;
  const bool run =
      columns[part.column_end - 1] - columns[part.column_begin] == static_cast<int64_t>(count) - 1;
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    std::byte* const out = block_.cell(row, part.column_begin);
    if (part.place.absent()) {
      for (size_t i = 0; i < count; ++i) std::memcpy(out + i * cell, info.fill_value.data(), cell);
      continue;
    }
    const std::byte* const from =
        chunk.data() +
        static_cast<size_t>((rows_[row] - part.first_row) * matrix.chunk_columns()) * cell;
    if (run) {
      std::memcpy(out,
                  from + static_cast<size_t>(columns[part.column_begin] - part.first_column) * cell,
                  count * cell);
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      const auto column = static_cast<size_t>(columns[part.column_begin + i] - part.first_column);
      std::memcpy(out + i * cell, from + column * cell, cell);
    }
  }
}

}  // namespace penstock::format
