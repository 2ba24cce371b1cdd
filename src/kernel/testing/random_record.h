#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/escape_code.h"
#include "kernel/pack_row.h"
#include "kernel/value_type.h"

// Packed rows for tests: random ones, and what one holds.

namespace penstock::kernel::testing {

inline constexpr DataType kNumberTypes[] = {
    DataType::kInt8,    DataType::kInt16,  DataType::kInt32,  DataType::kInt64,
    DataType::kUInt8,   DataType::kUInt16, DataType::kUInt32, DataType::kUInt64,
    DataType::kFloat32, DataType::kFloat64};

/// Entries of a packed row in order, values as doubles.
inline std::vector<std::pair<uint32_t, double>> entries(const PackedRowLayout& layout,
                                                        const std::byte* record) {
  const PackedRowView view = PackedRowView::of(record, layout);
  std::vector<std::pair<uint32_t, double>> found;
  size_t wide = 0;
  for (uint32_t i = 0; i < view.nnz; ++i) {
    const uint32_t column = layout.index_bytes == 2
                                ? load_unaligned<uint16_t>(view.indices + size_t{i} * 2)
                                : load_unaligned<uint32_t>(view.indices + size_t{i} * 4);
    double value = 0;
    if (view.codes != nullptr && view.codes[i] != kEscapeCode) {
      value = view.codes[i];
    } else {
      value = visit_number(layout.value_type, [&](auto identity) {
        using T = typename decltype(identity)::type;
        return static_cast<double>(load_unaligned<T>(view.wide + wide * sizeof(T)));
      });
      ++wide;
    }
    found.emplace_back(column, value);
  }
  return found;
}

/// A packed row of up to `most` entries below `columns`, some columns repeated. One value in `rare`
/// is not a small count.
inline std::vector<std::byte> random_record(std::mt19937_64& random, const PackedRowLayout& layout,
                                            uint32_t columns, uint32_t most, uint64_t rare) {
  std::vector<uint32_t> indices(columns == 0 ? 0 : random() % (most + 1));
  for (uint32_t& each : indices) each = static_cast<uint32_t>(random() % columns);
  std::sort(indices.begin(), indices.end());
  if (random() % 4 != 0) indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  const auto nnz = static_cast<uint32_t>(indices.size());
  std::vector<std::byte> values(nnz * layout.value_bytes);
  visit_number(layout.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    for (uint32_t i = 0; i < nnz; ++i) {
      const auto value = static_cast<T>(random() % rare ? random() % 120 : random() % 100'000);
      std::memcpy(values.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  const uint32_t wide = choose_wide_count(layout, values.data(), nnz);
  std::vector<std::byte> record(layout.record_bytes(nnz, wide));
  pack_row(layout, std::span<const uint32_t>(indices), values.data(), wide, record.data());
  return record;
}

}  // namespace penstock::kernel::testing
