#include "kernel/select_columns.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "kernel/pack_row.h"
#include "kernel/unpack_row.h"

namespace penstock::kernel {
namespace {

struct Row {
  std::vector<uint32_t> columns;
  std::vector<float> values;
};

Row random_row(std::mt19937_64& random, uint32_t column_count, bool fractions) {
  Row row;
  const auto nnz = random() % std::min<uint64_t>(column_count, 300);
  for (uint64_t i = 0; i < nnz; ++i) {
    row.columns.push_back(static_cast<uint32_t>(random() % column_count));  // some are duplicates
    row.values.push_back(fractions           ? static_cast<float>(random() % 1000) / 8
                         : random() % 9 == 0 ? static_cast<float>(random() % 5000)
                                             : static_cast<float>(random() % 200));
  }
  std::sort(row.columns.begin(), row.columns.end());
  return row;
}

std::vector<std::byte> packed(const PackedRowLayout& layout, const Row& row) {
  const auto nnz = static_cast<uint32_t>(row.columns.size());
  const auto* const values = reinterpret_cast<const std::byte*>(row.values.data());
  const uint32_t wide = choose_wide_count(layout, values, nnz);
  std::vector<std::byte> record(layout.record_bytes(nnz, wide));
  pack_row(layout, row.columns, values, wide, record.data());
  return record;
}

TEST(SelectColumns, KeepsTheChosenEntries) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t column_count = round % 2 == 0 ? 500 : 70000;
    std::vector<uint32_t> chosen;
    for (uint32_t c = 0; c < column_count; ++c) {
      if (random() % 3 != 0) chosen.push_back(c);
    }
    if (round % 10 == 0) chosen.clear();
    const ColumnChoice choice(chosen, column_count);
    EXPECT_FALSE(choice.all());
    const auto from = make_row_layout(column_count, DataType::kFloat32);
    const auto to = make_row_layout(chosen.size(), DataType::kFloat32);
    const Row row = random_row(random, column_count, round % 3 == 0);
    Row expected;
    for (size_t i = 0; i < row.columns.size(); ++i) {
      const auto at = std::lower_bound(chosen.begin(), chosen.end(), row.columns[i]);
      if (at == chosen.end() || *at != row.columns[i]) continue;
      expected.columns.push_back(static_cast<uint32_t>(at - chosen.begin()));
      expected.values.push_back(row.values[i]);
    }
    const auto record = packed(from, row);
    std::vector<std::byte> out(record.size());
    const SelectedRow selected = select_columns(from, record.data(), choice, to, out.data());
    ASSERT_EQ(selected.nnz, expected.columns.size());
    std::vector<int32_t> columns(selected.nnz);
    std::vector<float> values(selected.nnz);
    ASSERT_EQ(
        RowUnpacker(to, DataType::kFloat32)
            .append_csr(out.data(), columns.data(), reinterpret_cast<std::byte*>(values.data())),
        kNoMisfit);
    EXPECT_EQ(std::vector<uint32_t>(columns.begin(), columns.end()), expected.columns);
    EXPECT_EQ(values, expected.values);
  }
}

TEST(SelectColumns, AllIsKnown) {
  EXPECT_TRUE(ColumnChoice(std::vector<uint32_t>{0, 1, 2}, 3).all());
  EXPECT_FALSE(ColumnChoice(std::vector<uint32_t>{0, 2}, 3).all());
}

TEST(SelectColumns, ColumnsAscendBelowTheEnd) {
  EXPECT_THROW(ColumnChoice(std::vector<uint32_t>{1, 1}, 3), InvalidArgument);
  EXPECT_THROW(ColumnChoice(std::vector<uint32_t>{3}, 3), InvalidArgument);
}

}  // namespace
}  // namespace penstock::kernel
