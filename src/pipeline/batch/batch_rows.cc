#include "pipeline/batch/batch_rows.h"

#include <span>

namespace penstock::pipeline {

void BatchRows::unpack() {
  size_t bytes = 0;
  shapes_.clear();
  for (const PackedRowRef& row : refs_) {
    if (row.stored_bytes == 0) continue;
    shapes_.push_back(decoder_.shape({row.record, row.stored_bytes}));
    bytes += decoder_.layout().record_bytes(shapes_.back().nnz, shapes_.back().wide_count);
  }
  if (bytes == 0) return;
  unpacked_.resize_discard(bytes);
  meter_.add(unpacked_.capacity() - counted_);
  counted_ = unpacked_.capacity();
  std::byte* to = unpacked_.data();
  size_t next = 0;
  for (PackedRowRef& row : refs_) {
    if (row.stored_bytes == 0) continue;
    const format::pack::RowShape& shape = shapes_[next++];
    decoder_.decode({row.record, row.stored_bytes}, shape, to);
    row.record = to;
    row.stored_bytes = 0;
    to += decoder_.layout().record_bytes(shape.nnz, shape.wide_count);
  }
}

}  // namespace penstock::pipeline
