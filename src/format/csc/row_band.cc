#include "format/csc/row_band.h"

#include <algorithm>
#include <cstring>

#include "kernel/pack_row.h"

namespace penstock::format {

RowBand::RowBand(const kernel::PackedRowLayout& layout, uint64_t begin,
                 std::span<const uint32_t> counts)
    : layout_(layout), begin_(begin), left_(counts.begin(), counts.end()) {
  offsets_.reserve(counts.size() + 1);
  uint64_t entries = 0;
  for (const uint32_t count : counts) {
    offsets_.push_back(entries);
    if (count != kRowNotChosen) entries += count;
  }
  offsets_.push_back(entries);
  indices_.resize_discard(entries * layout.index_bytes);
  values_.resize_discard(entries * layout.value_bytes);
}

// The matrix is read a second time here, and may have changed since its rows were counted: no entry
// may leave the place of its row.
template <typename Index, typename Bits>
bool RowBand::add_cells(uint32_t column, std::span<const uint32_t> rows, const std::byte* values,
                        uint64_t first, uint64_t last) {
  Index* const indices = indices_.as<Index>().data();
  std::byte* const out = values_.data();
  const uint64_t count = last - first;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] - first >= count) continue;  // also those before `first`, which wrap around
    const uint64_t row = rows[i] - begin_;
    const uint32_t left = left_[row];
    if (left == kRowNotChosen) continue;
    if (left == 0) return false;
    left_[row] = left - 1;
    const uint64_t place = offsets_[row + 1] - left;
    indices[place] = static_cast<Index>(column);
    std::memcpy(out + place * sizeof(Bits), values + i * sizeof(Bits), sizeof(Bits));
  }
  return true;
}

template <typename Index>
bool RowBand::add_indices(uint32_t column, std::span<const uint32_t> rows, const std::byte* values,
                          uint64_t first, uint64_t last) {
  switch (layout_.value_bytes) {
    case 1:
      return add_cells<Index, uint8_t>(column, rows, values, first, last);
    case 2:
      return add_cells<Index, uint16_t>(column, rows, values, first, last);
    case 4:
      return add_cells<Index, uint32_t>(column, rows, values, first, last);
    default:
      return add_cells<Index, uint64_t>(column, rows, values, first, last);
  }
}

bool RowBand::add(uint32_t column, std::span<const uint32_t> rows, const std::byte* values,
                  uint64_t first, uint64_t last) {
  return layout_.index_bytes == 2 ? add_indices<uint16_t>(column, rows, values, first, last)
                                  : add_indices<uint32_t>(column, rows, values, first, last);
}

bool RowBand::complete() const noexcept {
  return std::all_of(left_.begin(), left_.end(),
                     [](uint32_t left) { return left == 0 || left == kRowNotChosen; });
}

uint32_t RowBand::nnz(uint64_t row) const noexcept {
  return static_cast<uint32_t>(offsets_[row - begin_ + 1] - offsets_[row - begin_]);
}

template <typename Index>
void RowBand::pack_entries(uint64_t at, uint32_t count, std::vector<uint64_t>& record) const {
  const std::byte* const values = values_.data() + at * layout_.value_bytes;
  const uint32_t wide = kernel::choose_wide_count(layout_, values, count);
  const size_t words = layout_.record_bytes(count, wide) / sizeof(uint64_t);
  if (record.size() < words) record.resize(words);
  kernel::pack_row(layout_, indices_.as<Index>().subspan(at, count), values, wide,
                   reinterpret_cast<std::byte*>(record.data()));
}

void RowBand::pack(uint64_t row, std::vector<uint64_t>& record) const {
  const uint64_t at = offsets_[row - begin_];
  if (layout_.index_bytes == 2) {
    pack_entries<uint16_t>(at, nnz(row), record);
  } else {
    pack_entries<uint32_t>(at, nnz(row), record);
  }
}

}  // namespace penstock::format
