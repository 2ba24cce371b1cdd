#include "kernel/beside_rows.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernel/index_type.h"
#include "kernel/pack_row.h"
#include "kernel/repack_row.h"
#include "kernel/value_type.h"

namespace penstock::kernel {
namespace {

/// Writes `count` indices with `offset` added, modulo 2^32.
template <typename From, typename To>
void copy_indices(const std::byte* from, uint32_t count, uint32_t offset, std::byte* to) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto index = static_cast<To>(load_unaligned<From>(from + i * sizeof(From)) + offset);
    std::memcpy(to + i * sizeof(To), &index, sizeof(To));
  }
}

void copy_indices(uint8_t from_bytes, const std::byte* from, uint32_t count, uint32_t offset,
                  uint8_t to_bytes, std::byte* to) {
  with_index_type(from_bytes, [&](auto read) {
    with_index_type(to_bytes, [&](auto written) {
      copy_indices<decltype(read), decltype(written)>(from, count, offset, to);
    });
  });
}

void copy_values(DataType from, const std::byte* values, uint32_t count, DataType to,
                 std::byte* out) {
  if (from == to) {
    std::memcpy(out, values, count * size_of(to));
    return;
  }
  visit_number(from, [&](auto from_identity) {
    using From = typename decltype(from_identity)::type;
    visit_number(to, [&](auto to_identity) {
      using To = typename decltype(to_identity)::type;
      for (uint32_t i = 0; i < count; ++i) {
        const auto value = static_cast<To>(load_unaligned<From>(values + i * sizeof(From)));
        std::memcpy(out + i * sizeof(To), &value, sizeof(To));
      }
    });
  });
}

/// First entry of [begin, nnz) whose column is `end` or more.
uint32_t first_entry(const PackedRowView& view, uint8_t index_bytes, uint32_t begin, uint32_t end) {
  return with_index_type(index_bytes, [&](auto index) {
    using Index = decltype(index);
    uint32_t low = begin;
    uint32_t high = view.nnz;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const uint32_t column = load_unaligned<Index>(view.indices + middle * sizeof(Index));
      (column < end ? low : high) = column < end ? middle + 1 : middle;
    }
    return low;
  });
}

void write_padding(std::byte* out, const std::byte* end) {
  std::memset(out, 0, static_cast<size_t>(end - out));
}

}  // namespace

PackedRowHeader merged_header(PackedRowHeader a, PackedRowHeader b) noexcept {
  // A part without entries has no form.
  if (a.nnz == 0) return b;
  if (b.nnz == 0) return a;
  const bool a_raw = a.wide_count == kRawRow;
  const bool b_raw = b.wide_count == kRawRow;
  if (a_raw && b_raw) return {a.nnz + b.nnz, kRawRow};
  return {a.nnz + b.nnz, (a_raw ? a.nnz : a.wide_count) + (b_raw ? b.nnz : b.wide_count)};
}

double most_merged_growth(const PackedRowLayout& part, const PackedRowLayout& merged) {
  // A raw part gets codes.
  const double raw =
      (merged.index_bytes + merged.value_bytes + 1.0) / (part.index_bytes + part.value_bytes);
  return std::max(raw, most_growth(part, merged));
}

void merge_rows(std::span<const RowPart> parts, const PackedRowLayout& to, std::byte* destination) {
  PackedRowHeader header;
  for (const RowPart& part : parts) header = merged_header(header, header_of(part.record));
  const bool raw = header.wide_count == kRawRow;
  std::memcpy(destination, &header, sizeof(header));
  std::byte* wide = destination + sizeof(header);
  std::byte* index = wide + size_t{raw ? header.nnz : header.wide_count} * to.value_bytes;
  std::byte* code = index + size_t{header.nnz} * to.index_bytes;
  for (const RowPart& part : parts) {
    const PackedRowView view = PackedRowView::of(part.record, part.layout);
    if (view.nnz == 0) continue;
    const uint32_t wide_count = view.codes == nullptr ? view.nnz : view.wide_count;
    copy_values(part.layout.value_type, view.wide, wide_count, to.value_type, wide);
    wide += size_t{wide_count} * to.value_bytes;
    copy_indices(part.layout.index_bytes, view.indices, view.nnz, part.first_column, to.index_bytes,
                 index);
    index += size_t{view.nnz} * to.index_bytes;
    if (raw) continue;
    if (view.codes == nullptr) {
      std::memset(code, kEscapeCode, view.nnz);
    } else {
      std::memcpy(code, view.codes, view.nnz);
    }
    code += view.nnz;
  }
  write_padding(raw ? index : code, destination + to.record_bytes(header.nnz, header.wide_count));
}

RowSplitter::RowSplitter(const PackedRowLayout& merged, std::vector<uint32_t> ends)
    : merged_(merged), ends_(std::move(ends)) {
  for (size_t part = 0; part < ends_.size(); ++part) {
    layouts_.push_back(make_row_layout(columns(part), merged.value_type));
  }
}

size_t RowSplitter::split_bytes(const std::byte* record) const noexcept {
  const PackedRowHeader header = header_of(record);
  // Of each part a header of its own, and padding.
  return merged_.record_bytes(header.nnz, header.wide_count) +
         part_count() * (sizeof(PackedRowHeader) + sizeof(uint64_t));
}

size_t RowSplitter::split(const std::byte* record, std::byte* memory, std::span<Part> parts) const {
  const PackedRowView view = PackedRowView::of(record, merged_);
  const bool raw = view.codes == nullptr;
  uint32_t begin = 0;
  const std::byte* wide = view.wide;
  std::byte* out = memory;
  for (size_t part = 0; part < part_count(); ++part) {
    const bool is_last = part + 1 == part_count();
    const uint32_t end =
        is_last ? view.nnz : first_entry(view, merged_.index_bytes, begin, ends_[part]);
    const uint32_t nnz = end - begin;
    const auto wide_count =
        raw ? nnz
            : static_cast<uint32_t>(std::count(view.codes + begin, view.codes + end, kEscapeCode));
    // The part of a raw row that was merged with coded ones is raw again, and quicker to unpack.
    const bool is_raw = wide_count == nnz;
    const PackedRowHeader header{nnz, is_raw ? kRawRow : wide_count};
    const PackedRowLayout& own = layouts_[part];
    parts[part] = {out, nnz};
    std::byte* const record_end = out + own.record_bytes(header.nnz, header.wide_count);
    std::memcpy(out, &header, sizeof(header));
    out += sizeof(header);
    const size_t wide_bytes = size_t{wide_count} * merged_.value_bytes;
    std::memcpy(out, wide, wide_bytes);
    wide += wide_bytes;
    out += wide_bytes;
    const uint32_t first_column = part == 0 ? 0 : ends_[part - 1];
    copy_indices(merged_.index_bytes, view.indices + size_t{begin} * merged_.index_bytes, nnz,
                 uint32_t{0} - first_column, own.index_bytes, out);
    out += size_t{nnz} * own.index_bytes;
    if (!is_raw) {
      std::memcpy(out, view.codes + begin, nnz);
      out += nnz;
    }
    write_padding(out, record_end);
    out = record_end;
    begin = end;
  }
  return static_cast<size_t>(out - memory);
}

}  // namespace penstock::kernel
