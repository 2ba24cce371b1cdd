#include "kernel/packed_row.h"

#include <cstring>

namespace penstock::kernel {

std::byte* start_in_place_record(std::byte* record, uint32_t nnz,
                                 const std::byte* values) noexcept {
  const PackedRowHeader header{nnz, kInPlaceRow};
  std::memcpy(record, &header, sizeof(header));
  std::memcpy(record + sizeof(header), &values, sizeof(values));
  return record + sizeof(header) + sizeof(values);
}

PackedRowHeader header_of(const std::byte* record) noexcept {
  PackedRowHeader header;
  std::memcpy(&header, record, sizeof(header));
  if (header.wide_count == kInPlaceRow) header.wide_count = kRawRow;
  return header;
}

PackedRowView PackedRowView::of(const std::byte* record, const PackedRowLayout& layout) noexcept {
  PackedRowHeader header;
  std::memcpy(&header, record, sizeof(header));
  PackedRowView view;
  if (header.wide_count == kInPlaceRow) {
    view.nnz = header.nnz;
    view.wide_count = kRawRow;
    std::memcpy(&view.wide, record + sizeof(header), sizeof(view.wide));
    view.indices = record + sizeof(header) + sizeof(view.wide);
    return view;
  }
  view.nnz = header.nnz;
  view.wide_count = header.wide_count;
  const bool raw = header.wide_count == kRawRow;
  const size_t wide = raw ? header.nnz : header.wide_count;
  view.wide = record + sizeof(header);
  view.indices = view.wide + wide * layout.value_bytes;
  if (!raw) {
    view.codes =
        reinterpret_cast<const uint8_t*>(view.indices + size_t{header.nnz} * layout.index_bytes);
  }
  return view;
}

}  // namespace penstock::kernel
