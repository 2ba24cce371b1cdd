#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "base/vector_path.h"

// Cells and their byte planes for tests of kernels: every path, odd lengths, unaligned buffers.

namespace penstock::codec {

using Bytes = std::vector<std::byte>;

inline std::vector<VectorPath> levels() {
  std::vector<VectorPath> all;
  for (const VectorPath level : {VectorPath::kScalar, VectorPath::kSse2, VectorPath::kAvx2}) {
    if (level <= best_vector_path()) all.push_back(level);
  }
  return all;
}

inline std::vector<size_t> lengths() {
  std::vector<size_t> all;
  for (size_t length = 0; length < 140; ++length) all.push_back(length);
  for (const size_t length : {255U, 256U, 257U, 1000U, 4095U, 8192U, 8193U}) all.push_back(length);
  return all;
}

/// A copy of `bytes`, `shift` bytes after an aligned address.
class Unaligned {
 public:
  Unaligned(std::span<const std::byte> bytes, size_t shift) : memory_(bytes.size() + 64 + shift) {
    const auto address = std::bit_cast<uintptr_t>(memory_.data());
    start_ = (64 - address % 64) % 64 + shift;
    size_ = bytes.size();
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + static_cast<ptrdiff_t>(start_));
  }
  std::span<std::byte> span() { return std::span(memory_).subspan(start_, size_); }

 private:
  Bytes memory_;
  size_t start_ = 0;
  size_t size_ = 0;
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Bytes shuffle(const Bytes& cells, size_t width) {
  Bytes planes(cells.size());
  const size_t count = cells.size() / width;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < width; ++k) planes[k * count + i] = cells[i * width + k];
  }
  for (size_t i = count * width; i < cells.size(); ++i) planes[i] = cells[i];
  return planes;
}

}  // namespace penstock::codec
