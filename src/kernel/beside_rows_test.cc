#include "kernel/beside_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "kernel/repack_row.h"
#include "kernel/testing/random_record.h"

// A merged row must have the entries of its parts with their columns moved, and be cut into the
// same parts again.

namespace penstock::kernel {
namespace {

using testing::entries;

struct Parts {
  std::vector<uint32_t> ends;
  std::vector<RowPart> rows;
  std::vector<std::vector<std::byte>> records;
  PackedRowLayout merged;
  uint32_t nnz = 0;
};

Parts random_parts(std::mt19937_64& random) {
  Parts made;
  const size_t count = 1 + random() % 4;
  DataType type = testing::kNumberTypes[random() % std::size(testing::kNumberTypes)];
  const bool alike = random() % 2 == 0;
  const DataType first = type;
  uint32_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    // Sometimes no columns, and sometimes more than two bytes hold.
    const uint32_t columns = random() % 5 == 0   ? 0
                             : random() % 5 == 0 ? 70'000
                                                 : 1 + static_cast<uint32_t>(random() % 300);
    const DataType own =
        alike ? first : testing::kNumberTypes[random() % std::size(testing::kNumberTypes)];
    type = common_value_type(type, own);
    const PackedRowLayout layout = make_row_layout(columns, own);
    const uint64_t rare = random() % 3 == 0 ? 2 : 20;
    made.records.push_back(testing::random_record(random, layout, columns, 60, rare));
    made.rows.push_back({made.records.back().data(), layout, begin});
    begin += columns;
    made.ends.push_back(begin);
  }
  for (size_t i = 0; i < count; ++i) made.rows[i].record = made.records[i].data();
  made.merged = make_row_layout(begin, type);
  return made;
}

std::vector<std::byte> merge(const Parts& parts) {
  PackedRowHeader header;
  for (const RowPart& part : parts.rows) {
    PackedRowHeader own;
    std::memcpy(&own, part.record, sizeof(own));
    header = merged_header(header, own);
  }
  const size_t bytes = parts.merged.record_bytes(header.nnz, header.wide_count);
  std::vector<std::byte> out(bytes + 8, std::byte{0xAB});
  merge_rows(parts.rows, parts.merged, out.data());
  EXPECT_EQ(out.back(), std::byte{0xAB});  // not written beyond its size
  return out;
}

TEST(BesideRows, AMergedRowHasTheEntriesOfItsParts) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  int raw = 0;
  int coded = 0;
  for (int round = 0; round < 3000; ++round) {
    const Parts parts = random_parts(random);
    std::vector<std::pair<uint32_t, double>> expected;
    for (const RowPart& part : parts.rows) {
      for (auto [column, value] : entries(part.layout, part.record)) {
        expected.emplace_back(column + part.first_column, value);
      }
    }
    const std::vector<std::byte> merged = merge(parts);
    ASSERT_EQ(entries(parts.merged, merged.data()), expected);
    ++(PackedRowView::of(merged.data(), parts.merged).codes == nullptr ? raw : coded);
  }
  EXPECT_GT(raw, 50);  // some 100
  EXPECT_GT(coded, 100);
}

TEST(BesideRows, ASplitRowIsItsPartsAgain) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const Parts parts = random_parts(random);
    const std::vector<std::byte> merged = merge(parts);
    const RowSplitter splitter(parts.merged, parts.ends);
    ASSERT_EQ(splitter.part_count(), parts.rows.size());
    std::vector<RowSplitter::Part> found(parts.rows.size());
    const size_t most = splitter.split_bytes(merged.data());
    std::vector<uint64_t> memory(most / 8 + 1, 0xABABABABABABABABU);
    const size_t bytes =
        splitter.split(merged.data(), reinterpret_cast<std::byte*>(memory.data()), found);
    ASSERT_LE(bytes, most);
    ASSERT_EQ(bytes % 8, 0U);
    EXPECT_EQ(memory[bytes / 8], 0xABABABABABABABABU);
    for (size_t i = 0; i < found.size(); ++i) {
      const PackedRowLayout& layout = splitter.layout(i);
      EXPECT_EQ(layout.index_bytes, splitter.columns(i) <= 65'536 ? 2 : 4);
      const auto own = entries(layout, found[i].record);
      EXPECT_EQ(found[i].nnz, own.size());
      ASSERT_EQ(own, entries(parts.rows[i].layout, parts.rows[i].record));
    }
  }
}

TEST(BesideRows, WithoutPartsARowIsEmpty) {
  const PackedRowLayout layout = make_row_layout(10, DataType::kFloat32);
  std::vector<std::byte> out(layout.record_bytes(0, 0), std::byte{0xAB});
  merge_rows({}, layout, out.data());
  EXPECT_TRUE(entries(layout, out.data()).empty());
}

}  // namespace
}  // namespace penstock::kernel
