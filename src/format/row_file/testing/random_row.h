#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernel/pack_row.h"
#include "kernel/value_type.h"

// Random packed rows of every kind, for tests of code that stores rows.

namespace penstock::format::pack::testing {

enum class RowKind { kCounts, kLargeCounts, kMixed, kFractions, kAnything };
inline constexpr RowKind kRowKinds[] = {RowKind::kCounts, RowKind::kLargeCounts, RowKind::kMixed,
                                        RowKind::kFractions, RowKind::kAnything};

inline constexpr DataType kNumberTypes[] = {
    DataType::kInt8,    DataType::kInt16,  DataType::kInt32,  DataType::kInt64,
    DataType::kUInt8,   DataType::kUInt16, DataType::kUInt32, DataType::kUInt64,
    DataType::kFloat32, DataType::kFloat64};

template <typename T>
T random_value(std::mt19937_64& random, RowKind kind) {
  const auto count = [&](uint64_t most) {
    const uint64_t top = std::min<uint64_t>(
        most, std::is_integral_v<T> ? static_cast<uint64_t>(std::numeric_limits<T>::max()) : most);
    return static_cast<T>(1 + random() % top);
  };
  if (kind == RowKind::kMixed) kind = kRowKinds[random() % 30 == 0 ? 4 : 0];
  switch (kind) {
    case RowKind::kLargeCounts:
      return count(random() % 5 == 0 ? uint64_t{1} << 31 : 5000);
    case RowKind::kFractions:
      if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(std::log1p(static_cast<double>(1 + random() % 50)));
      }
      return count(100);
    case RowKind::kAnything: {
      if constexpr (std::is_floating_point_v<T>) {
        const T choices[] = {static_cast<T>(-0.0),
                             T{0},
                             std::numeric_limits<T>::quiet_NaN(),
                             -std::numeric_limits<T>::infinity(),
                             T{0.5},
                             T{255},
                             T{-1},
                             static_cast<T>(2147483648.0),
                             static_cast<T>(2147483904.0),
                             static_cast<T>(1e30),
                             std::numeric_limits<T>::denorm_min()};
        return choices[random() % std::size(choices)];
      } else {
        const uint64_t bits = random() % 4 == 0 ? 0 : random();
        T value;
        std::memcpy(&value, &bits, sizeof(value));
        return value;
      }
    }
    default:
      return random() % 20 == 0 ? count(400) : count(3);
  }
}

/// Returns `nnz` ascending columns below `column_count`; with `repeats`, some columns occur twice.
inline std::vector<uint32_t> random_columns(std::mt19937_64& random, uint32_t nnz,
                                            uint32_t column_count, bool repeats) {
  std::vector<uint32_t> columns;
  if (repeats) {
    for (uint32_t i = 0; i < nnz; ++i) {
      columns.push_back(static_cast<uint32_t>(random() % column_count));
    }
    std::sort(columns.begin(), columns.end());
    return columns;
  }
  // Selection sampling (Knuth): every subset is equally likely, the last column included.
  uint32_t wanted = nnz;
  for (uint32_t c = 0; c < column_count && wanted != 0; ++c) {
    if (random() % (column_count - c) < wanted) {
      columns.push_back(c);
      --wanted;
    }
  }
  return columns;
}

/// Returns the packed record of a row, padding cleared, with `slack` bytes behind it.
inline std::vector<std::byte> packed_row(const kernel::PackedRowLayout& layout,
                                         const std::vector<uint32_t>& columns,
                                         const std::byte* values, size_t slack = 0) {
  const auto nnz = static_cast<uint32_t>(columns.size());
  const uint32_t wide = kernel::choose_wide_count(layout, values, nnz);
  std::vector<std::byte> record(layout.record_bytes(nnz, wide) + slack);
  kernel::pack_row(layout, columns, values, wide, record.data());
  return record;
}

inline std::vector<std::byte> random_packed_row(std::mt19937_64& random,
                                                const kernel::PackedRowLayout& layout, RowKind kind,
                                                uint32_t nnz, uint32_t column_count, bool repeats) {
  const auto columns = random_columns(random, nnz, column_count, repeats);
  return visit_number(layout.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    std::vector<T> values;
    for (size_t i = 0; i < columns.size(); ++i) values.push_back(random_value<T>(random, kind));
    return packed_row(layout, columns, reinterpret_cast<const std::byte*>(values.data()));
  });
}

}  // namespace penstock::format::pack::testing
