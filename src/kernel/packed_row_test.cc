#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "kernel/pack_row.h"
#include "kernel/unpack_row.h"
#include "kernel/value_type.h"

namespace penstock::kernel {
namespace {

constexpr DataType kNumbers[] = {DataType::kInt8,   DataType::kInt16,  DataType::kInt32,
                                 DataType::kInt64,  DataType::kUInt8,  DataType::kUInt16,
                                 DataType::kUInt32, DataType::kUInt64, DataType::kFloat32,
                                 DataType::kFloat64};
constexpr VectorPath kPaths[] = {VectorPath::kScalar, VectorPath::kAvx2};

bool runs_here(VectorPath path) {
  return path == VectorPath::kScalar || best_vector_path() == path;
}

/// Mostly small counts; a share `rare` of the values needs an escape.
template <typename T>
std::vector<T> random_values(std::mt19937_64& random, uint32_t count, double rare) {
  std::vector<T> values(count);
  for (T& value : values) {
    const bool is_rare = std::uniform_real_distribution<>()(random) < rare;
    if (!is_rare) {
      value = static_cast<T>(random() % (std::is_same_v<T, int8_t> ? 128 : 255));
    } else if constexpr (std::is_floating_point_v<T>) {
      const T choices[] = {static_cast<T>(-0.0),
                           std::numeric_limits<T>::quiet_NaN(),
                           std::numeric_limits<T>::infinity(),
                           T{0.5},
                           T{255},
                           T{256},
                           T{-1},
                           static_cast<T>(1e30),
                           std::numeric_limits<T>::denorm_min(),
                           static_cast<T>(2147483648.0),
                           static_cast<T>(254.5)};
      value = choices[random() % std::size(choices)];
    } else {
      const uint64_t bits = random();
      std::memcpy(&value, &bits, sizeof(value));
    }
  }
  return values;
}

struct Row {
  std::vector<uint32_t> columns;
  std::vector<std::byte> values;
};

/// A record at an address that is only 8-byte aligned less `shift`, in memory that ends with it.
struct Record {
  std::vector<std::byte> bytes;
  size_t shift = 0;
  const std::byte* data() const { return bytes.data() + shift; }
};

Record pack(const PackedRowLayout& layout, const Row& row, VectorPath path, size_t shift) {
  const auto nnz = static_cast<uint32_t>(row.columns.size());
  const uint32_t wide = choose_wide_count(layout, row.values.data(), nnz, path);
  Record record;
  record.shift = shift;
  record.bytes.assign(shift + layout.record_bytes(nnz, wide), std::byte{0xEE});
  pack_row(layout, std::span<const uint32_t>(row.columns), row.values.data(), wide,
           record.bytes.data() + shift, path);
  return record;
}

template <typename T>
Row random_row(std::mt19937_64& random, uint32_t nnz, uint32_t columns, double rare,
               bool duplicates) {
  Row row;
  while (row.columns.size() < nnz) {
    row.columns.push_back(static_cast<uint32_t>(random() % columns));
    if (duplicates && row.columns.size() < nnz) row.columns.push_back(row.columns.back());
  }
  std::sort(row.columns.begin(), row.columns.end());
  const auto values = random_values<T>(random, nnz, rare);
  row.values.resize(nnz * sizeof(T));
  if (nnz != 0) std::memcpy(row.values.data(), values.data(), row.values.size());
  return row;
}

/// Expected result of unpacking, value by value, from the input before packing.
template <typename Stored, typename Out>
void check_row(const PackedRowLayout& layout, const Row& row, const std::byte* record,
               VectorPath path, uint32_t columns) {
  const auto nnz = static_cast<uint32_t>(row.columns.size());
  const RowUnpacker unpacker(
      layout,
      [] {
        if constexpr (std::is_same_v<Out, float>) return DataType::kFloat32;
        if constexpr (std::is_same_v<Out, double>) return DataType::kFloat64;
        if constexpr (std::is_same_v<Out, int8_t>) return DataType::kInt8;
        if constexpr (std::is_same_v<Out, uint16_t>) return DataType::kUInt16;
        return DataType::kInt64;
      }(),
      path);
  std::vector<Out> expected(nnz);
  std::vector<Out> dense_expected(columns, Out{});
  bool fits = true;
  bool dense_fits = true;
  for (uint32_t i = 0; i < nnz; ++i) {
    const auto value = load_unaligned<Stored>(row.values.data() + i * sizeof(Stored));
    if (!convert_value(value, expected[i])) {
      fits = dense_fits = false;
      break;
    }
    Out& cell = dense_expected[row.columns[i]];
    if constexpr (std::is_floating_point_v<Out>) {
      cell += expected[i];
    } else {
      dense_fits = dense_fits && !__builtin_add_overflow(cell, expected[i], &cell);
    }
  }
  // Guards on both sides show writes outside.
  std::vector<int32_t> indices(nnz + 2, -7);
  std::vector<Out> data(nnz + 2, Out{77});
  const uint32_t misfit =
      unpacker.append_csr(record, indices.data() + 1, reinterpret_cast<std::byte*>(&data[1]));
  ASSERT_EQ(misfit == kNoMisfit, fits);
  ASSERT_EQ(indices.front(), -7);
  ASSERT_EQ(indices.back(), -7);
  ASSERT_EQ(data.front(), Out{77});
  ASSERT_EQ(data.back(), Out{77});
  for (uint32_t i = 0; i < nnz; ++i) {
    ASSERT_EQ(static_cast<uint32_t>(indices[i + 1]), row.columns[i]);
    if (!fits) continue;
    ASSERT_EQ(std::memcmp(&data[i + 1], &expected[i], sizeof(Out)), 0) << "entry " << i;
  }
  if (!fits) {
    Out ignored;
    ASSERT_LT(misfit, nnz);
    ASSERT_FALSE(convert_value(load_unaligned<Stored>(row.values.data() + misfit * sizeof(Stored)),
                               ignored));
  }
  std::vector<Out> dense(columns, Out{});
  const uint32_t dense_misfit =
      unpacker.scatter_dense(record, reinterpret_cast<std::byte*>(dense.data()));
  ASSERT_EQ(dense_misfit == kNoMisfit, dense_fits);
  // Streamed at any alignment, over old contents, between guards.
  const size_t shift = 1 + row.columns.size() % 17;
  std::vector<Out> filled(columns + shift + 1, Out{99});
  const uint32_t fill_misfit =
      unpacker.fill_dense(record, reinterpret_cast<std::byte*>(filled.data() + shift), columns);
  finish_dense();
  ASSERT_EQ(fill_misfit, dense_misfit);
  ASSERT_EQ(filled[shift - 1], Out{99});
  ASSERT_EQ(filled.back(), Out{99});
  if (dense_fits && columns != 0) {
    ASSERT_EQ(std::memcmp(dense.data(), dense_expected.data(), columns * sizeof(Out)), 0);
    ASSERT_EQ(std::memcmp(&filled[shift], dense_expected.data(), columns * sizeof(Out)), 0);
  }
}

TEST(PackedRow, EveryTypeAndPathAgainstTheValuesThemselves) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (const DataType type : kNumbers) {
    for (int round = 0; round < 150; ++round) {
      const uint32_t columns = round % 10 == 0 ? 70000 : static_cast<uint32_t>(1 + random() % 6000);
      const auto nnz = static_cast<uint32_t>(random() % (round < 120 ? 80 : 600));
      const double rare = std::array{0.0, 0.02, 0.5, 1.0}[random() % 4];
      const auto layout = make_row_layout(columns, type);
      visit_number(type, [&](auto identity) {
        using Stored = typename decltype(identity)::type;
        const Row row = random_row<Stored>(random, nnz, columns, rare, round % 3 == 0);
        const Record reference = pack(layout, row, VectorPath::kScalar, 0);
        for (const VectorPath path : kPaths) {
          if (!runs_here(path)) continue;
          const Record record = pack(layout, row, path, random() % 8);
          ASSERT_EQ(std::memcmp(record.data(), reference.data(),
                                layout.record_bytes(
                                    nnz, PackedRowView::of(reference.data(), layout).wide_count)),
                    0);
          check_row<Stored, float>(layout, row, record.data(), path, columns);
          check_row<Stored, double>(layout, row, record.data(), path, columns);
          check_row<Stored, int8_t>(layout, row, record.data(), path, columns);
          check_row<Stored, uint16_t>(layout, row, record.data(), path, columns);
          check_row<Stored, int64_t>(layout, row, record.data(), path, columns);
        }
      });
    }
  }
}

TEST(PackedRow, TheSmallerFormIsTaken) {
  const auto layout = make_row_layout(100, DataType::kFloat32);
  const std::vector<float> counts{1, 2, 3, 300};
  const std::vector<float> fractions{0.1F, 0.2F, 0.3F, 4};
  const auto bytes = [](const std::vector<float>& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  };
  EXPECT_EQ(choose_wide_count(layout, bytes(counts), 4), 1U);
  EXPECT_EQ(choose_wide_count(layout, bytes(fractions), 4), 3U);  // 3 * 4 + 4 == 4 * 4
  EXPECT_EQ(choose_wide_count(layout, bytes(fractions), 3), kRawRow);
  EXPECT_EQ(layout.record_bytes(4, 1), 24U);        // 8 + 4 + 8 + 4
  EXPECT_EQ(layout.record_bytes(3, kRawRow), 32U);  // 8 + 12 + 6, padded
}

TEST(PackedRow, NotNumbersAreUnsupported) {
  EXPECT_THROW(make_row_layout(10, DataType::kStringUtf8), Unsupported);
  EXPECT_THROW(RowUnpacker(make_row_layout(10, DataType::kFloat32), DataType::kBlob), Unsupported);
}

TEST(PackedRow, EntryTextAndColumnSayWhatIsStored) {
  const auto layout = make_row_layout(100, DataType::kInt32);
  const std::vector<int32_t> values{5, 1000, 7, -3};
  const std::vector<uint32_t> columns{1, 4, 50, 99};
  Row row{columns, {}};
  row.values.resize(16);
  std::memcpy(row.values.data(), values.data(), 16);
  const Record record = pack(layout, row, VectorPath::kScalar, 0);
  const auto view = PackedRowView::of(record.data(), layout);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(entry_text(view, layout, i), std::to_string(values[i]));
    EXPECT_EQ(entry_column(view, layout, i), columns[i]);
  }
}

TEST(PackedRow, EntryTextOfFloatsHasTheDigitsThatTheyNeed) {
  const auto layout = make_row_layout(100, DataType::kFloat32);
  const std::vector<float> values{282, 0.5F, -1e30F};
  Row row{{0, 1, 2}, {}};
  row.values.resize(12);
  std::memcpy(row.values.data(), values.data(), 12);
  const Record record = pack(layout, row, VectorPath::kScalar, 0);
  const auto view = PackedRowView::of(record.data(), layout);
  EXPECT_EQ(entry_text(view, layout, 0), "282");
  EXPECT_EQ(entry_text(view, layout, 1), "0.5");
  EXPECT_EQ(entry_text(view, layout, 2), "-1e+30");
}

TEST(ConvertValue, IntegersMustFitExactly) {
  int8_t narrow = 0;
  EXPECT_TRUE(convert_value(-128.0F, narrow));
  EXPECT_EQ(narrow, -128);
  EXPECT_FALSE(convert_value(-128.5, narrow));
  EXPECT_FALSE(convert_value(128, narrow));
  EXPECT_FALSE(convert_value(std::nan(""), narrow));
  uint64_t large = 0;
  EXPECT_FALSE(convert_value(-1, large));
  EXPECT_FALSE(convert_value(18446744073709551616.0, large));
  EXPECT_TRUE(convert_value(9223372036854775808.0, large));
  EXPECT_EQ(large, uint64_t{1} << 63);
  int64_t whole = 0;
  EXPECT_FALSE(convert_value(9223372036854775808.0F, whole));
  EXPECT_FALSE(convert_value(uint64_t{1} << 63, whole));
}

}  // namespace
}  // namespace penstock::kernel
