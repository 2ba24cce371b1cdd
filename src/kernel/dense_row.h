#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel/stream_out.h"
#include "kernel/transform/row_transform.h"

namespace penstock::kernel {

/// Overwrites a dense row with a transformed cell's entries (ascending columns). Like
/// RowUnpacker::fill_dense, builds it piece by piece in the first-level cache and applies the dense
/// steps to each piece. Call finish_dense() once before other threads read.
template <typename T>
void fill_dense_row(const RowTransform<T>& transform, const int32_t* indices, const T* values,
                    uint32_t nnz, T* row) {
  constexpr uint32_t kPiece = kStreamBytes / sizeof(T);
  alignas(64) T piece[kPiece] = {};
  const uint32_t columns = transform.columns();
  // The first piece ends at a cache line of the destination; the others begin and end at one.
  const auto misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 64);
  uint32_t end = std::min<uint32_t>(columns, (kStreamBytes - misaligned) / sizeof(T));
  uint32_t entry = 0;
  for (uint32_t begin = 0; begin < columns; begin = end, end = std::min(columns, end + kPiece)) {
    const uint32_t first = entry;
    while (entry < nnz && static_cast<uint32_t>(indices[entry]) < end) {
      piece[static_cast<uint32_t>(indices[entry]) - begin] = values[entry];
      ++entry;
    }
    if (transform.has_dense_steps()) transform.apply_dense(piece, begin, end);
    stream_out(reinterpret_cast<std::byte*>(row + begin), reinterpret_cast<const std::byte*>(piece),
               size_t{end - begin} * sizeof(T));
    if (transform.has_dense_steps()) {
      std::fill_n(piece, kPiece, T{});
    } else {
      for (uint32_t i = first; i < entry; ++i) {
        piece[static_cast<uint32_t>(indices[i]) - begin] = T{};
      }
    }
  }
}

}  // namespace penstock::kernel
