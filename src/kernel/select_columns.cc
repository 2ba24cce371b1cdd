#include "kernel/select_columns.h"

#include <penstock/error.h>

#include <cstring>

#include "base/concat.h"
#include "base/escape_code.h"
#include "kernel/value_type.h"

namespace penstock::kernel {
namespace {

/// Memory of a thread for the kept entries, until their number is known.
struct Kept {
  std::vector<uint32_t> indices;
  std::vector<uint8_t> codes;
  std::vector<std::byte> wide;
};

template <typename T>
void make_room(std::vector<T>& memory, size_t count) {
  if (memory.size() < count) memory.resize(count);
}

/// Collects entries whose column is chosen. Writes every entry, but advances only past chosen ones.
template <typename Index>
SelectedRow keep_coded(const PackedRowView& row, const uint32_t* numbers, size_t value_bytes,
                       Kept& kept) {
  const std::byte* wide = row.wide;
  std::byte* wide_out = kept.wide.data();
  SelectedRow selected;
  for (uint32_t i = 0; i < row.nnz; ++i) {
    const uint32_t number = numbers[load_unaligned<Index>(row.indices + i * sizeof(Index))];
    const bool chosen = number != ColumnChoice::kDropped;
    kept.indices[selected.nnz] = number;
    kept.codes[selected.nnz] = row.codes[i];
    selected.nnz += chosen ? 1U : 0U;
    if (row.codes[i] != kEscapeCode) continue;
    if (chosen) {
      std::memcpy(wide_out, wide, value_bytes);
      wide_out += value_bytes;
      ++selected.wide_count;
    }
    wide += value_bytes;
  }
  return selected;
}

template <typename Index>
SelectedRow keep_raw(const PackedRowView& row, const uint32_t* numbers, size_t value_bytes,
                     Kept& kept) {
  SelectedRow selected{0, kRawRow};
  for (uint32_t i = 0; i < row.nnz; ++i) {
    const uint32_t number = numbers[load_unaligned<Index>(row.indices + i * sizeof(Index))];
    if (number == ColumnChoice::kDropped) continue;
    kept.indices[selected.nnz] = number;
    std::memcpy(kept.wide.data() + selected.nnz * value_bytes, row.wide + i * value_bytes,
                value_bytes);
    ++selected.nnz;
  }
  return selected;
}

template <typename Index>
void write_indices(const uint32_t* indices, uint32_t nnz, std::byte* out) {
  for (uint32_t i = 0; i < nnz; ++i) {
    const auto index = static_cast<Index>(indices[i]);
    std::memcpy(out + i * sizeof(Index), &index, sizeof(Index));
  }
}

}  // namespace

ColumnChoice::ColumnChoice(std::span<const uint32_t> chosen, uint32_t column_count)
    : numbers_(column_count, kDropped), count_(static_cast<uint32_t>(chosen.size())) {
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] >= column_count || (i != 0 && chosen[i] <= chosen[i - 1])) {
      throw InvalidArgument(
          concat("chosen columns must ascend below ", column_count, ", got ", chosen[i]));
    }
    numbers_[chosen[i]] = static_cast<uint32_t>(i);
  }
  all_ = count_ == column_count;
}

SelectedRow select_columns(const PackedRowLayout& from, const std::byte* record,
                           const ColumnChoice& choice, const PackedRowLayout& to,
                           std::byte* destination) {
  thread_local Kept kept;
  const auto row = PackedRowView::of(record, from);
  make_room(kept.indices, size_t{row.nnz} + 1);
  make_room(kept.codes, size_t{row.nnz} + 1);
  make_room(
      kept.wide,
      (row.codes == nullptr ? size_t{row.nnz} : size_t{row.wide_count}) * from.value_bytes + 1);
  const uint32_t* const numbers = choice.numbers().data();
  const bool narrow = from.index_bytes == 2;
  SelectedRow selected;
  if (row.codes == nullptr) {
    selected = narrow ? keep_raw<uint16_t>(row, numbers, from.value_bytes, kept)
                      : keep_raw<uint32_t>(row, numbers, from.value_bytes, kept);
  } else {
    selected = narrow ? keep_coded<uint16_t>(row, numbers, from.value_bytes, kept)
                      : keep_coded<uint32_t>(row, numbers, from.value_bytes, kept);
  }
  const PackedRowHeader header{selected.nnz, selected.wide_count};
  std::memcpy(destination, &header, sizeof(header));
  std::byte* out = destination + sizeof(header);
  const bool raw = selected.wide_count == kRawRow;
  const size_t wide_bytes = size_t{raw ? selected.nnz : selected.wide_count} * to.value_bytes;
  std::memcpy(out, kept.wide.data(), wide_bytes);
  out += wide_bytes;
  if (to.index_bytes == 2) {
    write_indices<uint16_t>(kept.indices.data(), selected.nnz, out);
  } else {
    write_indices<uint32_t>(kept.indices.data(), selected.nnz, out);
  }
  out += size_t{selected.nnz} * to.index_bytes;
  if (!raw) std::memcpy(out, kept.codes.data(), selected.nnz);
  return selected;
}

}  // namespace penstock::kernel
