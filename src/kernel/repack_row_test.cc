#include "kernel/repack_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/testing/test_seed.h"
#include "kernel/testing/random_record.h"

// A repacked row must equal the row that is packed from the renumbered entries.

namespace penstock::kernel {
namespace {

using testing::entries;
using testing::kNumberTypes;

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

    const DataType type = kNumberTypes[random() % std::size(kNumberTypes)];
    const DataType other =
        common_value_type(type, kNumberTypes[random() % std::size(kNumberTypes)]);
    const PackedRowLayout from = make_row_layout(random() % 2 ? columns : 70'000, type);
    const PackedRowLayout to =
        make_row_layout(from.index_bytes == 4 || random() % 2 ? 70'000 : 2'000, other);
    const uint64_t rare = random() % 3 ? 20 : 2;
    std::vector<std::byte> record =
        testing::random_record(random, from, static_cast<uint32_t>(numbers.size()), 60, rare);
    const auto view = PackedRowView::of(record.data(), from);

    auto expected = entries(from, record.data());
    for (auto& [column, value] : expected) column = numbers[column];
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::byte> out(to.record_bytes(view.nnz, view.wide_count) + 8, std::byte{0xAB});
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
