#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>

#include "base/testing/test_seed.h"
#include "format/memory/memory_matrix.h"
#include "kernel/unpack_row.h"

namespace penstock::format {
namespace {

using Random = std::mt19937_64;

/// A matrix of rows x columns, most cells 0, and its entries in stored order.
template <typename Value>
struct Cells {
  uint64_t rows = 0, columns = 0;
  std::vector<std::vector<std::pair<int64_t, Value>>> entries;  ///< by row: column, value
};

template <typename Value>
Cells<Value> random_cells(Random& random, bool repeat) {
  Cells<Value> made;
  made.rows = random() % 80;
  made.columns = 1 + random() % 60;
  made.entries.resize(made.rows);
  for (auto& row : made.entries) {
    for (uint64_t column = 0; column < made.columns; ++column) {
      if (random() % 4 != 0) continue;
      Value value = static_cast<Value>(1 + random() % 300);
      if constexpr (std::is_floating_point_v<Value>) {
        if (random() % 10 == 0) value = value / Value{8};
      }
      row.emplace_back(static_cast<int64_t>(column), value);
      if (repeat && random() % 9 == 0) row.emplace_back(static_cast<int64_t>(column), value);
    }
    if (random() % 3 == 0) std::shuffle(row.begin(), row.end(), random);
  }
  return made;
}

template <typename T>
MemoryArray vector_of(DataType type, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {type, reinterpret_cast<const std::byte*>(owner->data()), owner->size(), owner};
}

template <typename Value, typename Offset>
MatrixSourcePtr csr_source(const Cells<Value>& cells, DataType type, DataType offset_type,
                           const MemoryView& view) {
  std::vector<Offset> indptr{0}, indices;
  std::vector<Value> data;
  for (const auto& row : cells.entries) {
    for (const auto& [column, value] : row) {
      indices.push_back(static_cast<Offset>(column));
      data.push_back(value);
    }
    indptr.push_back(static_cast<Offset>(data.size()));
  }
  return make_memory_source(CsrInMemory{vector_of(type, data), vector_of(offset_type, indices),
                                        vector_of(offset_type, indptr), cells.rows, cells.columns,
                                        view});
}

template <typename Value>
MatrixSourcePtr dense_source(const Cells<Value>& cells, DataType type, bool column_major,
                             const MemoryView& view) {
  std::vector<Value> data(cells.rows * cells.columns);
  const auto row_step = column_major ? uint64_t{1} : cells.columns;
  const auto column_step = column_major ? cells.rows : uint64_t{1};
  for (uint64_t row = 0; row < cells.rows; ++row) {
    for (const auto& [column, value] : cells.entries[row]) {
      data[row * row_step + static_cast<uint64_t>(column) * column_step] = value;
    }
  }
  return make_memory_source(DenseInMemory{vector_of(type, std::move(data)), cells.rows,
                                          cells.columns,
                                          static_cast<int64_t>(row_step * sizeof(Value)),
                                          static_cast<int64_t>(column_step * sizeof(Value)), view});
}

MemoryView random_view(Random& random, uint64_t rows, uint64_t columns) {
  MemoryView view;
  view.all_rows = random() % 2 == 0;
  view.all_columns = random() % 2 == 0;
  for (uint64_t i = 0; !view.all_rows && i < rows / 2; ++i) {
    view.rows.push_back(static_cast<int64_t>(random() % rows));
  }
  if (!view.all_columns) {
    view.columns.resize(columns);
    std::iota(view.columns.begin(), view.columns.end(), int64_t{0});
    std::shuffle(view.columns.begin(), view.columns.end(), random);
    view.columns.resize(random() % (columns + 1));
  }
  return view;
}

/// The record of a row: by the row reader, and by its unit.
struct Records {
  std::vector<std::byte> read, packed;
  bool in_place = false;
};

std::vector<Records> records_of(const MatrixSource& source, const MatrixReader& reader,
                                std::vector<uint32_t>& nnz) {
  std::vector<Records> records;
  const kernel::PackedRowLayout& layout = reader.row_layout();
  const auto rows = reader.row_reader(RowSelection());
  RowBuffer buffer;
  for (uint32_t unit = 0; unit < source.units().size(); ++unit) {
    const plan::FetchUnit& place = source.units()[unit];
    std::vector<int64_t> ids(static_cast<size_t>(place.row_end - place.row_begin));
    std::iota(ids.begin(), ids.end(), place.row_begin);
    rows->read(ids, buffer);
    const auto decode = reader.start(unit, ids, nullptr);
    decode->fetch();
    for (size_t task = 0; task < decode->task_count(0); ++task) decode->run(0, task);
    for (uint32_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(buffer.nnz[i], decode->nnz(i));
      nnz.push_back(decode->nnz(i));
      Records both;
      both.packed.resize(decode->packed_bytes(i));
      decode->pack(i, both.packed.data());
      kernel::PackedRowHeader header;
      std::memcpy(&header, buffer.records[i], sizeof(header));
      both.in_place = header.wide_count == kernel::kInPlaceRow;
      if (!both.in_place) {
        EXPECT_EQ(header.wide_count, decode->wide_count(i));
      }
      const size_t bytes =
          both.in_place ? kernel::in_place_record_bytes(layout, nnz.back()) : both.packed.size();
      both.read.assign(buffer.records[i], buffer.records[i] + bytes);
      records.push_back(std::move(both));
    }
  }
  return records;
}

/// Returns the number of rows whose values were read in place.
template <typename Value>
size_t check(const Cells<Value>& cells, DataType type, const MatrixSource& source,
             const MemoryView& view, Random& random) {
  std::vector<int64_t> chosen;
  const bool all = random() % 2 == 0;
  for (int64_t column = 0; column < source.info().column_domain_end; ++column) {
    if (all || random() % 2 == 0) chosen.push_back(column);
  }
  const auto reader = source.reader(chosen);
  std::vector<uint32_t> nnz;
  const auto records = records_of(source, *reader, nnz);
  EXPECT_EQ(records.size(), view.all_rows ? cells.rows : view.rows.size());
  size_t in_place = 0;
  const kernel::RowUnpacker unpacker(reader->row_layout(), type);
  for (size_t row = 0; row < records.size(); ++row) {
    const size_t stored = view.all_rows ? row : static_cast<size_t>(view.rows[row]);
    std::vector<std::pair<int32_t, Value>> wanted;
    for (const auto& [column, value] : cells.entries[stored]) {
      for (size_t i = 0; i < chosen.size(); ++i) {
        const int64_t shown =
            view.all_columns ? chosen[i] : view.columns[static_cast<size_t>(chosen[i])];
        if (shown == column) wanted.emplace_back(static_cast<int32_t>(i), value);
      }
    }
    std::stable_sort(wanted.begin(), wanted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    in_place += records[row].in_place;
    EXPECT_EQ(nnz[row], wanted.size());
    if (nnz[row] != wanted.size()) return in_place;
    for (const auto* record : {&records[row].read, &records[row].packed}) {
      std::vector<int32_t> indices(wanted.size());
      std::vector<Value> values(wanted.size());
      EXPECT_EQ(unpacker.append_csr(record->data(), indices.data(),
                                    reinterpret_cast<std::byte*>(values.data())),
                kernel::kNoMisfit);
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(indices[i], wanted[i].first);
        EXPECT_EQ(values[i], wanted[i].second);
      }
    }
  }
  return in_place;
}

template <typename Value>
void check_type(DataType type, uint64_t own_seed) {
  const TestSeed seed(own_seed);
  Random random(seed);
  size_t in_place = 0;
  for (int round = 0; round < 60; ++round) {
    const auto sparse = random_cells<Value>(random, true);
    const auto view = random_view(random, sparse.rows, sparse.columns);
    const auto source = round % 2 == 0
                            ? csr_source<Value, int32_t>(sparse, type, DataType::kInt32, view)
                            : csr_source<Value, int64_t>(sparse, type, DataType::kInt64, view);
    in_place += check(sparse, type, *source, view, random);
    const auto dense = random_cells<Value>(random, false);
    const auto dense_view = random_view(random, dense.rows, dense.columns);
    const auto dense_rows = dense_source(dense, type, round % 2 == 0, dense_view);
    EXPECT_EQ(check(dense, type, *dense_rows, dense_view, random), 0U);
  }
  EXPECT_GT(in_place, 0U);
}

TEST(MemorySource, RandomMatricesAndViews) {
  check_type<float>(DataType::kFloat32, 1);
  check_type<double>(DataType::kFloat64, 2);
  check_type<int32_t>(DataType::kInt32, 3);
  check_type<uint16_t>(DataType::kUInt16, 4);
  check_type<int64_t>(DataType::kInt64, 5);
}

template <typename Make>
std::string message_of(Make&& make) {
  try {
    const auto source = make();
    const auto reader = source->reader(std::vector<int64_t>{0, 1});
    RowBuffer buffer;
    reader->row_reader(RowSelection())->read(std::vector<int64_t>{0, 1}, buffer);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(MemorySource, ContradictionsAreErrors) {
  const auto csr = [](std::vector<int32_t> indptr, std::vector<int32_t> ids, MemoryView view = {}) {
    return [=] {
      const std::vector<float> values(ids.size(), 1);
      return make_memory_source(CsrInMemory{vector_of(DataType::kFloat32, values),
                                            vector_of(DataType::kInt32, ids),
                                            vector_of(DataType::kInt32, indptr), 2, 2, view});
    };
  };
  EXPECT_EQ(message_of(csr({0, 1, 2}, {0, 1})), "");
  EXPECT_EQ(message_of(csr({0, 2, 1}, {0, 1})),
            "indptr must begin with 0 and not fall, got 1 after 2 at row 2");
  EXPECT_EQ(message_of(csr({0, 1, 3}, {0, 1})), "indptr ends at 3, but there are 2 non-zeros");
  EXPECT_EQ(message_of(csr({0, 2}, {0, 1})),
            "indptr must have one entry more than there are rows, got 2 for 2 rows");
  EXPECT_EQ(message_of(csr({0, 1, 2}, {0, 2})),
            "column ids must be in 0 … 1, but row 1 has another");
  EXPECT_EQ(message_of(csr({0, 1, 2}, {0, -1})),
            "column ids must be in 0 … 1, but row 1 has another");
  MemoryView view;
  view.all_rows = false;
  view.rows = {2};
  EXPECT_EQ(message_of(csr({0, 1, 2}, {0, 1}, view)),
            "a view's rows and columns must be those of its matrix, of 2 x 2");
  MemoryView twice;
  twice.all_columns = false;
  twice.columns = {1, 1};
  EXPECT_EQ(message_of(csr({0, 1, 2}, {0, 1}, twice)),
            "a view of a CSR matrix shows a column twice");
}

TEST(MemorySource, ArraysThatChangeAreErrors) {
  std::vector<int32_t> indptr{0, 2, 4}, ids{0, 1, 0, 1};
  const std::vector<float> values{1, 2, 3, 4};
  const auto borrowed = [](DataType type, const auto& from) {
    return MemoryArray{type, reinterpret_cast<const std::byte*>(from.data()), from.size(), nullptr};
  };
  const auto source = make_memory_source(CsrInMemory{borrowed(DataType::kFloat32, values),
                                                     borrowed(DataType::kInt32, ids),
                                                     borrowed(DataType::kInt32, indptr),
                                                     2,
                                                     2,
                                                     {}});
  const auto reader = source->reader(std::vector<int64_t>{0, 1})->row_reader(RowSelection());
  RowBuffer buffer;
  const auto message = [&] {
    try {
      reader->read(std::vector<int64_t>{0, 1}, buffer);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(), "");
  indptr = {0, 3, 2};
  EXPECT_EQ(message(), "indptr was changed: row 1 has entries 3 … 2 of 4");
  indptr = {0, 2, 5};
  EXPECT_EQ(message(), "indptr was changed: row 1 has entries 2 … 5 of 4");
  indptr = {0, 2, 4};
  ids[3] = 2;
  EXPECT_EQ(message(), "column ids must be in 0 … 1, but row 1 has another");
}

}  // namespace
}  // namespace penstock::format
