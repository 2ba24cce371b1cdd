#include "format/csr/csr_reader.h"

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

/// A CSR matrix as the test knows it.
template <typename Id, typename Value>
struct Matrix {
  uint64_t columns = 0;
  std::vector<int64_t> indptr{0};
  std::vector<Id> ids;
  std::vector<Value> values;
  uint64_t rows() const { return indptr.size() - 1; }
};

enum class Values { kCounts, kSomeWide, kMostWide };

template <typename Value>
Value random_value(Random& random, Values kind) {
  const bool wide = kind == Values::kMostWide || (kind == Values::kSomeWide && random() % 20 == 0);
  if (!wide) return static_cast<Value>(random() % 5);  // explicit zeros too
  if constexpr (std::is_floating_point_v<Value>) {
    return random() % 8 == 0 ? -Value{0} : static_cast<Value>(random() % 1000) / Value{7};
  } else {
    return static_cast<Value>(random());
  }
}

template <typename Id, typename Value>
Matrix<Id, Value> random_matrix(Random& random, uint64_t columns, Values kind) {
  Matrix<Id, Value> made;
  made.columns = columns;
  const uint64_t rows = random() % 300;
  const bool sorted = random() % 2 == 0;
  const bool duplicates = random() % 3 == 0;
  for (uint64_t row = 0; row < rows; ++row) {
    uint64_t count = random() % 4 == 0 ? 0 : random() % 40;
    if (random() % 50 == 0) count = random() % 900;
    std::vector<Id> ids;
    for (uint64_t i = 0; i < count; ++i) ids.push_back(static_cast<Id>(random() % columns));
    std::sort(ids.begin(), ids.end());
    if (!duplicates) ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    if (!sorted) std::shuffle(ids.begin(), ids.end(), random);
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
    for (size_t i = 0; i < ids.size(); ++i)
      made.values.push_back(random_value<Value>(random, kind));
    made.indptr.push_back(static_cast<int64_t>(made.ids.size()));
  }
  return made;
}

MemoryLayout random_layout(Random& random) {
  MemoryLayout layout;
  layout.chunk_length = random() % 4 == 0 ? 1 + random() % 5000 : 1 + random() % 200;
  layout.compressed = random() % 2 != 0;
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

void run_all(UnitDecode& decode) {
  decode.fetch();
  for (size_t phase = 0; phase < decode.phase_count(); ++phase) {
    for (size_t task = 0; task < decode.task_count(phase); ++task) decode.run(phase, task);
  }
}

/// The row as the matrix has it: chosen columns renumbered, ascending, duplicates in order.
template <typename Id, typename Value>
void expect_row(const Matrix<Id, Value>& matrix, int64_t row, const std::vector<int64_t>& chosen,
                const std::vector<int32_t>& indices, const std::vector<Value>& values) {
  std::vector<std::pair<int32_t, Value>> wanted;
  for (int64_t i = matrix.indptr[static_cast<size_t>(row)];
       i < matrix.indptr[static_cast<size_t>(row) + 1]; ++i) {
    const auto id = static_cast<int64_t>(matrix.ids[static_cast<size_t>(i)]);
    const auto at = std::lower_bound(chosen.begin(), chosen.end(), id);
    if (at == chosen.end() || *at != id) continue;
    wanted.emplace_back(static_cast<int32_t>(at - chosen.begin()),
                        matrix.values[static_cast<size_t>(i)]);
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ASSERT_EQ(indices.size(), wanted.size()) << "row " << row;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(indices[i], wanted[i].first) << "row " << row;
    ASSERT_EQ(std::memcmp(&values[i], &wanted[i].second, sizeof(Value)), 0) << "row " << row;
  }
}

std::vector<int64_t> random_subset(Random& random, int64_t begin, int64_t end, bool all) {
  std::vector<int64_t> chosen;
  const uint64_t share = 1 + random() % 5;
  for (int64_t i = begin; i < end; ++i) {
    if (all || random() % share == 0) chosen.push_back(i);
  }
  return chosen;
}

/// Rows in any order, some of them twice, from a matrix without codecs.
template <typename Id, typename Value>
void check_rows(const Matrix<Id, Value>& matrix, const MatrixReader& reader,
                const std::vector<int64_t>& chosen, const kernel::RowUnpacker& unpacker,
                Random& random) {
  const auto rows = reader.row_reader(RowSelection());
  ASSERT_NE(rows, nullptr);
  EXPECT_TRUE(rows->prefers_kept());
  const auto end = static_cast<int64_t>(matrix.rows());
  RowBuffer buffer;
  for (int round = 0; round < 4; ++round) {
    std::vector<int64_t> wanted(end == 0 ? 0 : random() % 60);
    for (int64_t& row : wanted) row = static_cast<int64_t>(random() % matrix.rows());
    rows->read(wanted, buffer);
    ASSERT_EQ(buffer.records.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::vector<int32_t> indices(buffer.nnz[i]);
      std::vector<Value> values(buffer.nnz[i]);
      ASSERT_EQ(unpacker.append_csr(buffer.records[i], indices.data(),
                                    reinterpret_cast<std::byte*>(values.data())),
                kernel::kNoMisfit);
      expect_row(matrix, wanted[i], chosen, indices, values);
    }
    uint64_t elements = 0;
    for (const int64_t row : wanted) {
      const auto at = static_cast<size_t>(row);
      elements += static_cast<uint64_t>(matrix.indptr[at + 1] - matrix.indptr[at]);
    }
    EXPECT_EQ(rows->bytes_needed(wanted), elements * (sizeof(Id) + sizeof(Value)));
    EXPECT_GT(buffer.memory_bytes(), 0U);
  }
  for (const int64_t outside : {int64_t{-1}, end}) {
    EXPECT_THROW(rows->read(std::vector<int64_t>{outside}, buffer), InvalidArgument);
  }
}

/// Random rows of all units, in order.
template <typename Id, typename Value>
void check_units(const Matrix<Id, Value>& matrix, const MatrixSource& source,
                 const std::vector<int64_t>& chosen, Random& random,
                 std::unique_ptr<UnitDecode>& decode) {
  const auto reader = source.reader(chosen);
  const kernel::RowUnpacker unpacker(reader->row_layout(), source.info().value_type);
  int64_t next = 0;
  for (uint32_t unit = 0; unit < source.units().size(); ++unit) {
    const plan::FetchUnit& place = source.units()[unit];
    ASSERT_EQ(place.row_begin, next);
    next = place.row_end;
    EXPECT_GT(reader->in_flight_bytes(unit), 0U);
    const auto rows = random_subset(random, place.row_begin, place.row_end, random() % 2 == 0);
    decode = reader->start(unit, rows, std::move(decode));
    run_all(*decode);
    ASSERT_EQ(decode->row_count(), rows.size());
    for (uint32_t row = 0; row < decode->row_count(); ++row) {
      std::vector<std::byte> record(decode->packed_bytes(row));
      decode->pack(row, record.data());
      std::vector<int32_t> indices(decode->nnz(row));
      std::vector<Value> values(decode->nnz(row));
      ASSERT_EQ(unpacker.append_csr(record.data(), indices.data(),
                                    reinterpret_cast<std::byte*>(values.data())),
                kernel::kNoMisfit);
      expect_row(matrix, rows[row], chosen, indices, values);
    }
  }
  EXPECT_EQ(next, static_cast<int64_t>(matrix.rows()));
}

/// `decode` is recycled from unit to unit, also between readers of other matrices and types, as
/// those of joined experiments are. Returns how many matrices could be read in order.
template <typename Id, typename Value>
int check(DataType id_type, DataType value_type, uint64_t columns, uint64_t own_seed,
          std::unique_ptr<UnitDecode>& decode) {
  const TestSeed seed(own_seed);
  Random random(seed);
  int in_order_count = 0;
  for (int round = 0; round < 30; ++round) {
    const auto kind = static_cast<Values>(random() % 3);
    const auto matrix = random_matrix<Id, Value>(random, columns, kind);
    const MemoryGroup group = store(matrix, id_type, value_type, random);
    const auto array = CsrArray::load(group, matrix.rows(), columns, 1);
    const auto source = make_csr_source(array);
    const auto chosen = random_subset(random, 0, static_cast<int64_t>(columns), round % 2 == 0);
    check_units(matrix, *source, chosen, random, decode);
    if (const auto in_order = source->in_order()) {
      check_units(matrix, *in_order, chosen, random, decode);
      ++in_order_count;
    }
    const auto reader = source->reader(chosen);
    const kernel::RowUnpacker unpacker(reader->row_layout(), value_type);
    if (array->addresses_elements()) {
      check_rows(matrix, *reader, chosen, unpacker, random);
    } else {
      EXPECT_EQ(reader->row_reader(RowSelection()), nullptr);
    }
  }
  return in_order_count;
}

TEST(RowOffsets, TheRowOfAnElement) {
  const TestSeed seed(9);
  Random random(seed);
  for (int round = 0; round < 50; ++round) {
    RowOffsets offsets;
    std::vector<uint64_t> row_of;  // by element
    const uint64_t rows = 1 + random() % 5000;
    offsets.append(0);
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t count = random() % 3 == 0 ? 0 : random() % (round % 2 == 0 ? 4 : 60);
      row_of.insert(row_of.end(), count, row);
      offsets.append(row_of.size());
    }
    for (uint64_t element = 0; element < row_of.size(); element += 1 + random() % 20) {
      ASSERT_EQ(offsets.row_of(element), row_of[element]);
      const uint64_t from = random() % (row_of[element] + 1);
      ASSERT_EQ(offsets.row_of(element, from), row_of[element]) << "from row " << from;
    }
  }
}

TEST(CsrReader, RandomMatrices) {
  std::unique_ptr<UnitDecode> decode;
  int in_order = 0;
  in_order += check<uint16_t, float>(DataType::kUInt16, DataType::kFloat32, 300, 1, decode);
  in_order += check<int32_t, float>(DataType::kInt32, DataType::kFloat32, 300, 2, decode);
  in_order += check<int64_t, double>(DataType::kInt64, DataType::kFloat64, 300, 3, decode);
  in_order += check<uint8_t, int32_t>(DataType::kUInt8, DataType::kInt32, 200, 4, decode);
  in_order += check<int32_t, int64_t>(DataType::kInt32, DataType::kInt64, 70'000, 5, decode);
  in_order += check<uint32_t, uint16_t>(DataType::kUInt32, DataType::kUInt16, 70'000, 6, decode);
  in_order += check<int16_t, int8_t>(DataType::kInt16, DataType::kInt8, 5, 7, decode);
  EXPECT_GT(in_order, 20);
}

std::string message_of(const MemoryGroup& group, uint64_t rows, uint64_t columns) {
  try {
    const auto source = make_csr_source(CsrArray::load(group, rows, columns, 1));
    std::vector<int64_t> all(columns);
    std::iota(all.begin(), all.end(), int64_t{0});
    const auto reader = source->reader(all);
    for (uint32_t unit = 0; unit < source->units().size(); ++unit) {
      std::vector<int64_t> chosen;
      for (int64_t row = source->units()[unit].row_begin; row < source->units()[unit].row_end;
           ++row) {
        chosen.push_back(row);
      }
      run_all(*reader->start(unit, chosen, nullptr));
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(CsrReader, ContradictionsAreErrors) {
  const auto objects = std::make_shared<io::MemoryStore>();
  const auto group_of = [&](std::vector<int64_t> indptr, std::vector<int32_t> ids,
                            std::vector<float> values) {
    MemoryGroup group("X");
    const MemoryLayout layout{4, true, false, false, false};
    group.arrays_["indices"] =
        std::make_shared<MemoryArray>(objects, "X/indices", DataType::kInt32, ids, layout);
    group.arrays_["data"] =
        std::make_shared<MemoryArray>(objects, "X/data", DataType::kFloat32, values, layout);
    group.arrays_["indptr"] =
        std::make_shared<MemoryArray>(objects, "X/indptr", DataType::kInt64, indptr, layout);
    return group;
  };
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2), "");
  EXPECT_EQ(message_of(group_of({0, 2, 1}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr falls from 2 to 1 after row 1, in X/indptr");
  EXPECT_EQ(message_of(group_of({1, 2, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr must begin with 0, not with 1, in X/indptr");
  EXPECT_EQ(message_of(group_of({0, -1, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr is out of range: -1, in X/indptr");
  EXPECT_EQ(message_of(group_of({0, 1, 2}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr ends at 2, but data and indices have 3 elements, in X");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 1}, {1, 2}), 2, 2),
            "data and indices must be of one length, found 2 and 3, in X");
  EXPECT_EQ(message_of(group_of({0, 3}, {0, 0, 1}, {1, 2, 3}), 2, 2),
            "indptr must have one entry more than there are rows, found 2 for 2 rows, in X");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, 2}, {1, 2, 3}), 2, 2),
            "column ids must be in 0 … 1, but rows 0 … 1 have another, in chunk 0 of X/indices");
  EXPECT_EQ(message_of(group_of({0, 1, 3}, {0, 0, -1}, {1, 2, 3}), 2, 2),
            "column ids must be in 0 … 1, but rows 0 … 1 have another, in chunk 0 of X/indices");
}

TEST(CsrReader, AnAbsentArrayIsNamed) {
  EXPECT_EQ(message_of(MemoryGroup("store/X"), 2, 2),
            "a CSR matrix has no array 'data', in store/X");
}

}  // namespace
}  // namespace penstock::format
