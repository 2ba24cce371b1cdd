#include "format/csc/csc_bands.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <type_traits>

#include "base/testing/test_seed.h"
#include "format/chunked/testing/memory_array.h"
#include "kernel/unpack_row.h"

namespace penstock::format {
namespace {

using chunked::MemoryArray;
using chunked::MemoryGroup;
using chunked::MemoryLayout;
using Random = std::mt19937_64;

/// A CSC matrix as the test knows it, and its rows.
template <typename Id, typename Value>
struct Matrix {
  std::vector<int64_t> indptr{0};
  std::vector<Id> ids;
  std::vector<Value> values;
  std::vector<std::vector<std::pair<int32_t, Value>>> rows;

  void add(Id row, Value value) {
    ids.push_back(row);
    values.push_back(value);
    rows[static_cast<size_t>(row)].emplace_back(static_cast<int32_t>(indptr.size() - 1), value);
  }
  void end_column() { indptr.push_back(static_cast<int64_t>(ids.size())); }
};

template <typename Value>
Value random_value(Random& random, bool counts) {
  if (counts || random() % 20 != 0) return static_cast<Value>(random() % 5);  // zeros too
  if constexpr (std::is_floating_point_v<Value>) {
    return random() % 8 == 0 ? -Value{0} : static_cast<Value>(random() % 1000) / Value{7};
  } else {
    return static_cast<Value>(random());
  }
}

/// Columns in any order of rows, with a row twice or not. Some 100 columns have entries; row 0 is
/// in nearly all of them.
template <typename Id, typename Value>
Matrix<Id, Value> random_matrix(Random& random, uint64_t rows, uint64_t columns) {
  Matrix<Id, Value> made;
  made.rows.resize(rows);
  const bool sorted = random() % 2 == 0;
  const bool counts = random() % 2 == 0;
  for (uint64_t column = 0; column < columns; ++column) {
    std::vector<Id> ids;
    const bool empty = rows == 0 || random() % 4 == 0 || random() % columns >= 100;
    const uint64_t count = empty ? 0 : random() % (rows + rows / 4);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t row = random() % 4 == 0 ? 0 : random() % rows;
      if (row % 7 != 3) ids.push_back(static_cast<Id>(row));  // the others are empty
    }
    if (sorted) std::sort(ids.begin(), ids.end());
    for (const Id id : ids) made.add(id, random_value<Value>(random, counts));
    made.end_column();
  }
  return made;
}

MemoryLayout random_layout(Random& random) {
  MemoryLayout layout;
  layout.chunk_length = 1 + random() % 40;
  layout.compressed = random() % 4 != 0;
  layout.shuffled = random() % 2 == 0;
  layout.big_endian = random() % 8 == 0;
  layout.absent_zeros = random() % 2 == 0;
  layout.deflated = random() % 2 == 0;
  return layout;
}

template <typename Id, typename Value>
MemoryGroup store(const Matrix<Id, Value>& matrix, DataType id_type, DataType value_type,
                  Random& random) {
  const auto objects = std::make_shared<io::MemoryStore>();
  MemoryGroup group("X");
  group.arrays_["indices"] = std::make_shared<MemoryArray>(objects, "X/indices", id_type,
                                                           matrix.ids, random_layout(random));
  group.arrays_["data"] = std::make_shared<MemoryArray>(objects, "X/data", value_type,
                                                        matrix.values, random_layout(random));
  group.arrays_["indptr"] = std::make_shared<MemoryArray>(objects, "X/indptr", DataType::kInt64,
                                                          matrix.indptr, random_layout(random));
  return group;
}

template <typename Id, typename Value>
void expect_row(const Matrix<Id, Value>& matrix, const RowBands& bands, DataType value_type,
                int64_t row, std::vector<uint64_t>& record) {
  const auto& wanted = matrix.rows[static_cast<size_t>(row)];
  ASSERT_EQ(bands.nnz(row), wanted.size()) << "row " << row;
  bands.pack(row, record);
  const kernel::RowUnpacker unpacker(bands.row_layout(), value_type);
  std::vector<int32_t> indices(wanted.size());
  std::vector<Value> values(wanted.size());
  ASSERT_EQ(unpacker.append_csr(reinterpret_cast<const std::byte*>(record.data()), indices.data(),
                                reinterpret_cast<std::byte*>(values.data())),
            kernel::kNoMisfit);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(indices[i], wanted[i].first) << "row " << row;
    ASSERT_EQ(std::memcmp(&values[i], &wanted[i].second, sizeof(Value)), 0) << "row " << row;
  }
}

/// Reads all chosen rows; returns how many bands there were.
template <typename Id, typename Value>
uint32_t check_rows(const Matrix<Id, Value>& matrix, RowBands& bands, DataType value_type,
                    const std::vector<int64_t>& chosen, uint64_t budget) {
  uint32_t count = 0;
  std::vector<uint64_t> record;
  size_t next = 0;
  while (next < chosen.size()) {
    const int64_t first = chosen[next];
    while (!bands.collect(first)) EXPECT_LE(bands.progress().share, 1.0);
    EXPECT_EQ(bands.progress().pass, ++count + 1);
    EXPECT_GE(bands.progress().passes, count + 1);
    uint64_t bytes = 0;
    size_t rows = 0;
    for (; next < chosen.size() && chosen[next] < bands.end(); ++next, ++rows) {
      expect_row(matrix, bands, value_type, chosen[next], record);
      bytes +=
          RowBand::kRowBytes + bands.nnz(chosen[next]) * RowBand::entry_bytes(bands.row_layout());
    }
    EXPECT_GT(rows, 0U);
    for (int64_t row = first; row < bands.end(); ++row) {
      if (!std::binary_search(chosen.begin(), chosen.end(), row)) {
        EXPECT_EQ(bands.nnz(row), 0U);
      }
    }
    if (rows > 1) {
      EXPECT_LE(bytes, budget);
    }
  }
  if (count != 0) {
    EXPECT_EQ(bands.progress().passes, count + 1);
  }
  return count;
}

/// Returns the most bands that any of the matrices had.
template <typename Id, typename Value>
uint32_t check(DataType id_type, DataType value_type, uint64_t most_rows, uint64_t columns,
               uint64_t own_seed) {
  const TestSeed seed(own_seed);
  Random random(seed);
  uint32_t most_bands = 0;
  for (int round = 0; round < 10; ++round) {
    const uint64_t rows = random() % most_rows;
    const auto matrix = random_matrix<Id, Value>(random, rows, columns);
    const MemoryGroup group = store(matrix, id_type, value_type, random);
    const auto source = make_csc_source(CscArray::load(group, rows, columns, 1));
    std::vector<int64_t> chosen;
    const uint64_t share = round % 2 == 0 ? 1 : 1 + random() % 5;
    for (uint64_t row = 0; row < rows; ++row) {
      if (random() % share == 0) chosen.push_back(static_cast<int64_t>(row));
    }
    const auto selection = RowSelection::from_sorted(chosen);
    const uint64_t budget = (uint64_t{6} << 10) + random() % (random() % 2 == 0 ? 4000 : 200'000);
    const auto bands = source->row_bands(selection, {budget, round % 3 == 0 ? 3U : 1U});
    most_bands = std::max(most_bands, check_rows(matrix, *bands, value_type, chosen, budget));
  }
  return most_bands;
}

TEST(CscBands, RandomMatrices) {
  const uint32_t most_bands =
      std::max({check<uint16_t, float>(DataType::kUInt16, DataType::kFloat32, 300, 60, 1),
                check<int32_t, float>(DataType::kInt32, DataType::kFloat32, 300, 60, 2),
                check<int64_t, double>(DataType::kInt64, DataType::kFloat64, 300, 60, 3),
                check<uint8_t, int32_t>(DataType::kUInt8, DataType::kInt32, 200, 80, 4),
                check<int32_t, int64_t>(DataType::kInt32, DataType::kInt64, 100, 70'000, 5),
                check<uint32_t, uint16_t>(DataType::kUInt32, DataType::kUInt16, 400, 80, 6),
                check<int16_t, int8_t>(DataType::kInt16, DataType::kInt8, 300, 120, 7)});
  EXPECT_GT(most_bands, 2U);
}

// Rows that were packed before are left out: the band begins where the caller goes on.
TEST(CscBands, BeginsAtAnyRow) {
  Random random(8);
  const auto matrix = random_matrix<int32_t, float>(random, 200, 50);
  const MemoryGroup group = store(matrix, DataType::kInt32, DataType::kFloat32, random);
  const auto source = make_csc_source(CscArray::load(group, 200, 50, 1));
  const auto bands = source->row_bands(RowSelection::range(0, 200), {uint64_t{1} << 30, 2});
  EXPECT_EQ(bands->progress().pass, 0U);
  while (!bands->collect(150)) {
  }
  EXPECT_EQ(bands->end(), 200);
  EXPECT_EQ(bands->progress().passes, 2U);
  std::vector<uint64_t> record;
  for (int64_t row = 150; row < 200; ++row) {
    expect_row(matrix, *bands, DataType::kFloat32, row, record);
  }
}

MemoryGroup group_of(const std::vector<int64_t>& indptr, const std::vector<int32_t>& ids,
                     const std::vector<float>& values) {
  const auto objects = std::make_shared<io::MemoryStore>();
  MemoryGroup group("X");
  const MemoryLayout layout{4, true, false, false, false};
  group.arrays_["indices"] =
      std::make_shared<MemoryArray>(objects, "X/indices", DataType::kInt32, ids, layout);
  group.arrays_["data"] =
      std::make_shared<MemoryArray>(objects, "X/data", DataType::kFloat32, values, layout);
  group.arrays_["indptr"] =
      std::make_shared<MemoryArray>(objects, "X/indptr", DataType::kInt64, indptr, layout);
  return group;
}

std::string message_of(const MemoryGroup& group, uint64_t rows, uint64_t columns,
                       uint64_t budget = uint64_t{1} << 20) {
  try {
    const auto source = make_csc_source(CscArray::load(group, rows, columns, 1));
    const auto all = RowSelection::range(0, static_cast<int64_t>(rows));
    const auto bands = source->row_bands(all, {budget, 1});
    while (!bands->collect(0)) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(CscBands, ContradictionsAreErrors) {
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2), "");
  EXPECT_EQ(message_of(group_of({0, 2, 1}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr falls from 2 to 1 after column 1, in X/indptr");
  EXPECT_EQ(message_of(group_of({1, 2, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr must begin with 0, not with 1, in X/indptr");
  EXPECT_EQ(message_of(group_of({0, -1, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr is out of range: -1, in X/indptr");
  EXPECT_EQ(message_of(group_of({0, 1, 2}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr ends at 2, but data and indices have 3 elements, in X");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 1}, {1, 2}), 2, 2),
            "data and indices must be of one length, found 2 and 3, in X");
  EXPECT_EQ(message_of(group_of({0, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr must have one entry more than there are columns, found 2 for 2 columns, in X");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 2}, {1, 2, 3}), 2, 2),
            "row ids must be in 0 … 1, but columns 0 … 1 have another, in X/indices");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, -1}, {1, 2, 3}), 2, 2),
            "row ids must be in 0 … 1, but columns 0 … 1 have another, in X/indices");
  EXPECT_EQ(message_of(MemoryGroup("store/X"), 2, 2),
            "a CSC matrix has no array 'data', in store/X");
}

TEST(CscBands, TheLeastBudgetIsNamedAndIsEnough) {
  const MemoryGroup group = group_of({0, 1, 3}, {0, 0, 1}, {1, 2, 3});
  // Chunks of 4: ids of 3 * 4 + 4 bytes, values of 3 * 4, twice; and two rows of 4 bytes.
  const uint64_t least = 2 * (4 * 16 + 4 * 12 + 2 * 4);
  EXPECT_EQ(message_of(group, 2, 2, least), "");
  EXPECT_EQ(
      message_of(group, 2, 2, least - 1),
      "memory_budget is too small to pack a matrix that is stored by genes: 239 bytes, needed "
      "at least 240 bytes for 2 cells and chunks of 4 and 4 elements, in X");
}

// R writes all of a matrix into one chunk. What HDF5 deflates is then decoded a piece at a time.
TEST(CscBands, ChunksLargerThanTheBudget) {
  const TestSeed seed(9);
  Random random(seed);
  constexpr uint64_t kRows = 4000, kColumns = 500;
  Matrix<int32_t, float> matrix;
  matrix.rows.resize(kRows);
  for (uint64_t column = 0; column < kColumns; ++column) {
    for (uint64_t row = random() % 3; row < kRows; row += 1 + random() % 3) {
      matrix.add(static_cast<int32_t>(row), random_value<float>(random, false));
    }
    matrix.end_column();
  }
  for (const bool deflated : {true, false}) {
    const MemoryLayout layout{matrix.ids.size() + 5, true, true, false, false, deflated};
    const auto objects = std::make_shared<io::MemoryStore>();
    MemoryGroup group("X");
    group.arrays_["indices"] =
        std::make_shared<MemoryArray>(objects, "X/indices", DataType::kInt32, matrix.ids, layout);
    group.arrays_["data"] =
        std::make_shared<MemoryArray>(objects, "X/data", DataType::kFloat32, matrix.values, layout);
    group.arrays_["indptr"] = std::make_shared<MemoryArray>(objects, "X/indptr", DataType::kInt64,
                                                            matrix.indptr, MemoryLayout{64});
    const uint64_t budget = uint64_t{20} << 20;
    const uint64_t chunk_needs = 2 * matrix.ids.size() * 28;
    ASSERT_GT(chunk_needs, 2 * budget);
    if (!deflated) {
      EXPECT_NE(message_of(group, kRows, kColumns, budget), "");
      continue;
    }
    const auto source = make_csc_source(CscArray::load(group, kRows, kColumns, 1));
    std::vector<int64_t> chosen(kRows);
    std::iota(chosen.begin(), chosen.end(), int64_t{0});
    const auto bands = source->row_bands(RowSelection::from_sorted(chosen), {budget, 2});
    check_rows(matrix, *bands, DataType::kFloat32, chosen, budget);
  }
}

// The matrix is read once for each band, so it can be written to in between.
TEST(CscBands, ChangesWhileItIsReadAreErrors) {
  const std::vector<float> values(6, 1);
  for (const std::vector<int32_t>& later :
       {std::vector<int32_t>{0, 0, 0, 1, 0, 1}, std::vector<int32_t>{2, 2, 2, 2, 2, 2}}) {
    MemoryGroup group = group_of({0, 3, 6}, {0, 1, 2, 0, 1, 2}, values);
    const auto objects = std::make_shared<io::MemoryStore>();
    const MemoryLayout layout{4, false, false, false, false};
    const auto write = [&](const std::vector<int32_t>& ids) {
      group.arrays_["indices"] =
          std::make_shared<MemoryArray>(objects, "X/indices", DataType::kInt32, ids, layout);
    };
    write({0, 1, 2, 0, 1, 2});
    const auto source = make_csc_source(CscArray::load(group, 3, 2, 1));
    const auto bands = source->row_bands(RowSelection::range(0, 3), {uint64_t{1} << 20, 1});
    ASSERT_FALSE(bands->collect(0));  // counted: six elements are one window
    write(later);                     // the same object
    try {
      while (!bands->collect(0)) {
      }
      ADD_FAILURE() << "no error";
    } catch (const IoError& error) {
      EXPECT_EQ(std::string(error.what()),
                "the matrix was written to while it was packed: pack it again, in X");
    }
  }
}

TEST(CscBands, UnitsAreRefusedWithTheWayOut) {
  const MemoryGroup group = group_of({0, 1, 3}, {0, 0, 1}, {1, 2, 3});
  const auto source = make_csc_source(CscArray::load(group, 2, 2, 1));
  EXPECT_TRUE(source->units().empty());
  EXPECT_TRUE(source->info().stored_by_columns);
  const std::vector<int64_t> columns{0, 1};
  try {
    source->reader(columns);
    ADD_FAILURE() << "no error";
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("`penstock pack SOURCE PACK`"), std::string::npos);
    EXPECT_TRUE(std::string(error.what()).ends_with(", in X"));
  }
}

}  // namespace
}  // namespace penstock::format
