#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::pipeline {

/// A packed row that goes into a batch.
struct PackedRowRef {
  const std::byte* record = nullptr;  ///< kernel/packed_row.h
  int64_t position = 0;               ///< in the selection
  int64_t joinid = 0;
  uint32_t nnz = 0;
  uint32_t stored_bytes = 0;  ///< of a record that must be unpacked first; 0: a packed row
};

}  // namespace penstock::pipeline
