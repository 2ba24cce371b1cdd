#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "format/row_file/row_record.h"
#include "pipeline/memory/memory_meter.h"
#include "pipeline/memory/packed_row_ref.h"

namespace penstock::pipeline {

/// The rows of one batch, and memory for those that are bit-packed. One thread; reused.
class BatchRows {
 public:
  BatchRows(const format::pack::RowDecoder& decoder, MemoryMeter& meter)
      : decoder_(decoder), meter_(meter) {}
  ~BatchRows() { meter_.subtract(counted_); }
  BatchRows(const BatchRows&) = delete;
  BatchRows& operator=(const BatchRows&) = delete;

  std::vector<PackedRowRef>& refs() noexcept { return refs_; }

  /// Unpacks the bit-packed rows, so that refs() are packed rows. Throws CorruptData.
  void unpack();

 private:
  const format::pack::RowDecoder& decoder_;
  MemoryMeter& meter_;
  std::vector<PackedRowRef> refs_;
  std::vector<format::pack::RowShape> shapes_;
  Buffer unpacked_;
  uint64_t counted_ = 0;
};

}  // namespace penstock::pipeline
