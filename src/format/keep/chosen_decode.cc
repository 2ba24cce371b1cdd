#include "format/keep/chosen_decode.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace penstock::format {
namespace {

constexpr size_t kRowsPerTask = 64;

size_t bytes_of(const kernel::PackedRowLayout& layout, const std::byte* record) noexcept {
  const kernel::PackedRowHeader header = kernel::header_of(record);
  return layout.record_bytes(header.nnz, header.wide_count);
}

}  // namespace

void ChosenDecode::start(std::vector<int64_t> rows) {
  rows_ = std::move(rows);
  parts_.resize((rows_.size() + kRowsPerTask - 1) / kRowsPerTask);
  at_.resize(rows_.size());
}

void ChosenDecode::run(size_t /*phase*/, size_t task) {
  const size_t begin = task * kRowsPerTask;
  const auto rows = std::span(rows_).subspan(begin, std::min(kRowsPerTask, rows_.size() - begin));
  RowBuffer whole;  // as large as the kept rows, so it does not stay
  kept_->read(rows, whole);
  size_t bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    at_[begin + i] = bytes;
    bytes += bytes_of(kept_->row_layout(), whole.records[i]);
  }
  parts_[task].resize_discard(bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(parts_[task].data() + at_[begin + i], whole.records[i],
                bytes_of(kept_->row_layout(), whole.records[i]));
  }
}

size_t ChosenDecode::packed_bytes(uint32_t row) const {
  return bytes_of(kept_->row_layout(), record(row));
}

void ChosenDecode::pack(uint32_t row, std::byte* destination) const {
  std::memcpy(destination, record(row), packed_bytes(row));
}

const std::byte* ChosenDecode::record(uint32_t row) const noexcept {
  return parts_[row / kRowsPerTask].data() + at_[row];
}

kernel::PackedRowHeader ChosenDecode::header(uint32_t row) const noexcept {
  return kernel::header_of(record(row));
}

}  // namespace penstock::format
