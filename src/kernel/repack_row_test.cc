#include "kernel/repack_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/testing/test_seed.h"
#include "kernel/pack_row.h"
#include "kernel/value_type.h"

// A repacked row must equal the row that is packed from the renumbered entries.

namespace penstock::kernel {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8,   DataType::kInt16,  DataType::kInt32,
                               DataType::kInt64,  DataType::kUInt8,  DataType::kUInt16,
                               DataType::kUInt32, DataType::kUInt64, DataType::kFloat32,
                               DataType::kFloat64};

/// Entries of a packed row in order, values as doubles.
std::vector<std::pair<uint32_t, double>> entries(const PackedRowLayout& layout,
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

/// numpy.promote_types of every pair, as made by numpy 2.
TEST(RepackRow, CommonTypesAreNumpys) {
  using enum DataType;
  const std::map<std::pair<DataType, DataType>, DataType> cases = {
      {{kInt8, kInt8}, kInt8},          {{kInt8, kUInt8}, kInt16},
      {{kUInt8, kInt16}, kInt16},       {{kUInt16, kInt16}, kInt32},
      {{kUInt32, kInt8}, kInt64},       {{kUInt64, kInt64}, kFloat64},
      {{kUInt8, kUInt32}, kUInt32},     {{kFloat32, kInt16}, kFloat32},
      {{kFloat32, kUInt16}, kFloat32},  {{kFloat32, kInt32}, kFloat64},
      {{kFloat32, kFloat64}, kFloat64}, {{kFloat64, kInt8}, kFloat64},
      {{kBool, kUInt8}, kUInt8},        {{kBool, kFloat32}, kFloat32}};
  for (const auto& [types, expected] : cases) {
    EXPECT_EQ(common_value_type(types.first, types.second), expected)
        << name_of(types.first) << " " << name_of(types.second);
    EXPECT_EQ(common_value_type(types.second, types.first), expected);
  }
}

TEST(RepackRow, IsTheRenumberedRow) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  RepackScratch scratch;
  for (int round = 0; round < 3000; ++round) {
    const auto columns = static_cast<uint32_t>(1 + random() % 300);
    std::vector<uint32_t> numbers(columns);
    uint32_t next = 0;
    for (uint32_t& number : numbers)
      number = next++ + static_cast<uint32_t>(round % 3 ? 0 : random() % 900);
    if (round % 3 == 0) {
      std::sort(numbers.begin(), numbers.end());
      numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    }
    if (round % 3 == 1) std::shuffle(numbers.begin(), numbers.end(), random);
    const ColumnNumbers map(numbers);
    EXPECT_EQ(map.ascending, std::is_sorted(numbers.begin(), numbers.end()));

    const DataType type = kTypes[random() % std::size(kTypes)];
    const DataType other = common_value_type(type, kTypes[random() % std::size(kTypes)]);
    const PackedRowLayout from = make_row_layout(random() % 2 ? columns : 70'000, type);
    const PackedRowLayout to =
        make_row_layout(from.index_bytes == 4 || random() % 2 ? 70'000 : 2'000, other);
    std::vector<uint32_t> indices(random() % 60);
    for (uint32_t& each : indices) each = static_cast<uint32_t>(random() % numbers.size());
    std::sort(indices.begin(), indices.end());
    if (random() % 4 != 0)
      indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    const auto nnz = static_cast<uint32_t>(indices.size());
    std::vector<std::byte> values(nnz * from.value_bytes);
    const uint64_t rare = random() % 3 ? 20 : 2;
    visit_number(type, [&](auto identity) {
      using T = typename decltype(identity)::type;
      for (uint32_t i = 0; i < nnz; ++i) {
        const auto value = static_cast<T>(random() % rare ? random() % 120 : random() % 100'000);
        std::memcpy(values.data() + i * sizeof(T), &value, sizeof(T));
      }
    });
    const uint32_t wide = choose_wide_count(from, values.data(), nnz);
    std::vector<std::byte> record(from.record_bytes(nnz, wide) + 8);
    pack_row(from, std::span<const uint32_t>(indices), values.data(), wide, record.data());

    auto expected = entries(from, record.data());
    for (auto& [column, value] : expected) column = numbers[column];
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::byte> out(to.record_bytes(nnz, wide) + 8, std::byte{0xAB});
    repack_row(from, record.data(), map, to, out.data(), scratch);
    EXPECT_EQ(entries(to, out.data()), expected);
    EXPECT_EQ(out.back(), std::byte{0xAB});  // not written beyond its size
    if (map.ascending && from.index_bytes == 4) {
      renumber_row(from, map, record.data());
      EXPECT_EQ(entries(from, record.data()), expected);
    }
  }
}

}  // namespace
}  // namespace penstock::kernel
