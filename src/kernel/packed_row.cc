#include "kernel/packed_row.h"

#include <cstring>

namespace penstock::kernel {

PackedRowView PackedRowView::of(const std::byte* record, const PackedRowLayout& layout) noexcept {
  PackedRowHeader header;
  std::memcpy(&header, record, sizeof(header));
  PackedRowView view;
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
