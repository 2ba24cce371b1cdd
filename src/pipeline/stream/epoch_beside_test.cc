#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "format/beside/source.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/stream/make_stream.h"
#include "pipeline/stream/row_stream.h"
#include "pipeline/testing/memory_matrix.h"

// Epochs over matrices beside one another: every row once with the cells of each, in one array or
// in one for each part, within the budget, for random shapes, ranks and resume positions.

namespace penstock::pipeline {
namespace {

using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::MemoryRow;
using Cells = std::vector<std::pair<int32_t, float>>;

struct Beside {
  std::vector<std::shared_ptr<MemoryMatrix>> matrices;
  std::vector<int64_t> first_column = {0};  ///< of each, and one past the last
  RowSelection rows;

  format::MatrixSourcePtr source() const {
    return format::put_beside({matrices.begin(), matrices.end()});
  }
};

Beside random_matrices(uint64_t seed, bool addresses_rows = false) {
  std::mt19937_64 random(seed);
  Beside made;
  const size_t count = 1 + random() % 4;
  int64_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    MemoryMatrixOptions options;
    // Most have the same rows, in units of their own; some end earlier.
    options.rows = random() % 3 == 0 || i == 0 ? 1 + static_cast<int64_t>(random() % 600) : most;
    // More than 65,536 columns want wider indices than the other parts have.
    options.columns = random() % 8 == 0 ? 70'000 : 1 + static_cast<int64_t>(random() % 100);
    options.max_unit_rows = 1 + static_cast<int64_t>(random() % 64);
    options.rare_values = random() % 3 == 0 ? 0.9 : 0.05;
    options.stored_every = 1 + static_cast<uint32_t>(random() % 3);
    options.seed = random();
    options.addresses_rows = addresses_rows;
    made.matrices.push_back(std::make_shared<MemoryMatrix>(options));
    made.first_column.push_back(made.first_column.back() + options.columns);
    most = std::max(most, options.rows);
  }
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < most; ++row) {
    if (random() % 5 != 0) rows.push_back(row);
  }
  made.rows = RowSelection::from_sorted(rows);
  return made;
}

/// Cells of a matrix's row, by position of their column among those of the matrix that are chosen.
Cells expected_row(const Beside& beside, size_t part, int64_t row,
                   const std::vector<int64_t>& chosen) {
  const MemoryMatrix& matrix = *beside.matrices[part];
  Cells cells;
  if (row >= matrix.info().row_domain_end) return cells;
  const MemoryRow& stored = matrix.row(row);
  const auto first = std::lower_bound(chosen.begin(), chosen.end(), beside.first_column[part]);
  for (size_t k = 0; k < stored.columns.size(); ++k) {
    const int64_t id = stored.columns[k] + beside.first_column[part];
    const auto at = std::lower_bound(first, chosen.end(), id);
    if (at == chosen.end() || *at != id) continue;
    cells.emplace_back(static_cast<int32_t>(at - first), stored.values[k]);
  }
  return cells;
}

/// Number of chosen columns of a matrix.
size_t chosen_columns(const Beside& beside, size_t part, const std::vector<int64_t>& chosen) {
  const auto end_of = [&](size_t matrix) {
    return std::lower_bound(chosen.begin(), chosen.end(), beside.first_column[matrix]);
  };
  return static_cast<size_t>(end_of(part + 1) - end_of(part));
}

void expect_csr(const Batch& batch, uint32_t row, const Cells& expected) {
  ASSERT_EQ(batch.dtype(), DataType::kFloat32);
  const auto csr = batch.csr();
  Cells found;
  for (auto k = csr.indptr[row]; k < csr.indptr[row + 1]; ++k) {
    found.emplace_back(csr.indices[static_cast<size_t>(k)],
                       reinterpret_cast<const float*>(csr.data)[k]);
  }
  ASSERT_EQ(found, expected);
}

void expect_dense(const Batch& batch, uint32_t row, const Cells& expected) {
  ASSERT_EQ(batch.dtype(), DataType::kFloat64);
  std::vector<double> wanted(batch.columns());
  for (const auto& [column, value] : expected) wanted[static_cast<size_t>(column)] += value;
  const auto* values = reinterpret_cast<const double*>(batch.dense()) + row * wanted.size();
  ASSERT_EQ(std::vector<double>(values, values + wanted.size()), wanted);
}

/// Row ids in the order they came; every value is checked.
std::vector<int64_t> read(const Beside& beside, const LoaderOptions& options,
                          LoaderStats* stats = nullptr) {
  const auto stream = make_stream(beside.source(), options);
  std::vector<int64_t> order;
  while (auto batch = stream->next()) {
    EXPECT_EQ(batch->part_count(), options.parts.size());
    if (!options.parts.empty()) {
      EXPECT_THROW(batch->csr(), InvalidArgument);
      EXPECT_THROW(batch->dense(), InvalidArgument);
    }
    for (uint32_t i = 0; i < batch->rows(); ++i) {
      const int64_t id = batch->joinids()[i];
      order.push_back(id);
      EXPECT_EQ(beside.rows.at(static_cast<uint64_t>(batch->positions()[i])), id);
      Cells all;
      int32_t first = 0;
      for (size_t part = 0; part < beside.matrices.size(); ++part) {
        const Cells own = expected_row(beside, part, id, *options.columns);
        if (options.parts.empty()) {
          for (const auto& [column, value] : own) all.emplace_back(column + first, value);
          const auto& chosen = *options.columns;
          first = static_cast<int32_t>(
              std::lower_bound(chosen.begin(), chosen.end(), beside.first_column[part + 1]) -
              chosen.begin());
          continue;
        }
        const Batch& array = *batch->part(part);
        EXPECT_EQ(array.columns(), chosen_columns(beside, part, *options.columns));
        EXPECT_EQ(array.missing()[i] != 0, own.empty());
        EXPECT_EQ(array.joinids()[i], id);
        array.layout() == BatchLayout::kCsr ? expect_csr(array, i, own)
                                            : expect_dense(array, i, own);
      }
      if (options.parts.empty()) expect_csr(*batch, i, all);
      if (::testing::Test::HasFailure()) return order;
    }
  }
  if (stats != nullptr) *stats = stream->stats();
  return order;
}

LoaderOptions random_options(const Beside& beside, uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  LoaderOptions options;
  options.rows = beside.rows;
  options.columns.emplace();
  for (size_t part = 0; part < beside.matrices.size(); ++part) {
    const bool none = random() % 5 == 0;
    // A dense array of many columns would take most of the time.
    const bool few = beside.matrices[part]->options().columns > 1000;
    for (int64_t id = beside.first_column[part]; id < beside.first_column[part + 1]; ++id) {
      if (!none && random() % (few ? 500 : 8) != 0 && (!few || random() % 500 == 0)) {
        options.columns->push_back(id);
      }
    }
    BatchPart array{
        beside.first_column[part + 1], BatchLayout::kCsr, DataType::kFloat32, nullptr, {}};
    if (random() % 2 == 0) {
      array.layout = BatchLayout::kDense;
      array.dtype = DataType::kFloat64;
    }
    options.parts.push_back(array);
  }
  if (random() % 3 == 0) options.parts.clear();
  options.batch_size = 1 + static_cast<uint32_t>(random() % 100);
  options.seed = seed;
  options.threads = 1 + static_cast<unsigned>(seed % 3);
  options.memory_budget = 16_MiB;
  return options;
}

TEST(EpochBeside, EveryRowOnceWithTheCellsOfEachMatrix) {
  for (uint64_t number = 1; number <= 80; ++number) {
    const TestSeed seed(number);
    const Beside beside = random_matrices(seed);
    const LoaderOptions options = random_options(beside, seed);
    LoaderStats stats;
    auto order = read(beside, options, &stats);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, beside.rows.to_vector());
    ASSERT_LE(stats.peak_buffered_bytes, options.memory_budget);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochBeside, RanksShareTheRowsAndAnEpochGoesOn) {
  for (uint64_t number = 1; number <= 30; ++number) {
    const TestSeed seed(number);
    const Beside beside = random_matrices(seed);
    LoaderOptions options = random_options(beside, seed);
    options.uneven = UnevenRows::kExact;
    options.world_size = 1 + static_cast<uint32_t>(seed % 3);
    std::vector<int64_t> all;
    for (uint32_t rank = 0; rank < options.world_size; ++rank) {
      options.rank = rank;
      options.first_batch = 0;
      const auto whole = read(beside, options);
      all.insert(all.end(), whole.begin(), whole.end());
      EpochStream stream(beside.source(), options);
      options.first_batch = stream.size() / 2;
      const auto rest = read(beside, options);
      ASSERT_LE(rest.size(), whole.size());
      ASSERT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all, beside.rows.to_vector());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochBeside, RowsOneByOneComeInTheOrderOfUnits) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    const Beside by_rows = random_matrices(seed, true);
    const Beside by_units = random_matrices(seed, false);
    LoaderOptions options = random_options(by_rows, seed);
    if (options.columns->empty()) continue;
    options.order = GlobalShuffle{};
    EXPECT_NO_THROW(RowStream(by_rows.source(), options));
    EXPECT_THROW(RowStream(by_units.source(), options), InvalidArgument);
    LoaderStats stats;
    const auto order = read(by_rows, options, &stats);
    ASSERT_EQ(read(by_units, options), order);
    ASSERT_EQ(order.size(), by_rows.rows.size());
    ASSERT_EQ(stats.bytes_read, stats.bytes_needed);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochBeside, UnitsLieInOneUnitOfEveryMatrix) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    const Beside beside = random_matrices(seed);
    const auto source = beside.source();
    int64_t row = 0;
    uint64_t cells = 0;
    for (const plan::FetchUnit& unit : source->units()) {
      ASSERT_EQ(unit.row_begin, row);
      ASSERT_GT(unit.row_end, row);
      for (const auto& matrix : beside.matrices) {
        const auto units = matrix->units();
        const bool whole = unit.row_begin >= matrix->info().row_domain_end ||
                           std::any_of(units.begin(), units.end(), [&](const auto& own) {
                             return own.row_begin <= unit.row_begin && unit.row_end <= own.row_end;
                           });
        ASSERT_TRUE(whole);
      }
      row = unit.row_end;
      cells += unit.cell_bound;
    }
    ASSERT_EQ(row, source->info().row_domain_end);
    uint64_t stored = 0;
    for (const auto& matrix : beside.matrices) {
      for (const auto& unit : matrix->units()) stored += unit.cell_bound;
    }
    EXPECT_GE(cells, stored);
    EXPECT_LE(cells, stored + source->units().size() * beside.matrices.size());
  }
}

TEST(EpochBeside, WhatIsNotChosenIsNotRead) {
  const TestSeed seed(1);
  MemoryMatrixOptions options;
  const auto read_one = std::make_shared<MemoryMatrix>(options);
  options.fault = testing::Fault::kFetch;
  const auto never_read = std::make_shared<MemoryMatrix>(options);
  LoaderOptions chosen;
  chosen.columns.emplace();
  for (int64_t column = 0; column < options.columns; ++column) chosen.columns->push_back(column);
  const auto source = format::put_beside({read_one, never_read});
  const auto stream = make_stream(source, chosen);
  uint64_t rows = 0;
  while (auto batch = stream->next()) rows += batch->rows();
  EXPECT_EQ(rows, 1000U);
  EXPECT_FALSE(never_read->fault_fired());
  chosen.columns->push_back(options.columns);
  const auto both = make_stream(source, chosen);
  EXPECT_THROW(while (both->next()){}, IoError);
  EXPECT_TRUE(never_read->fault_fired());
}

TEST(EpochBeside, WhatDoesNotFitIsRefused) {
  const auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  EXPECT_THROW(format::put_beside({}), InvalidArgument);
  const auto source = format::put_beside({matrix, matrix});
  const std::vector<int64_t> outside = {200};
  EXPECT_THROW(source->reader(outside), InvalidArgument);
  LoaderOptions options;
  const auto made_with = [&](std::vector<int64_t> ends, DataType dtype = DataType::kFloat32) {
    options.parts.clear();
    for (const int64_t end : ends) {
      options.parts.push_back({end, BatchLayout::kCsr, dtype, nullptr, "part"});
    }
    return make_stream(source, options);
  };
  EXPECT_NO_THROW(made_with({100, 200}));
  EXPECT_NO_THROW(made_with({0, 300}));
  EXPECT_THROW(made_with({100}), InvalidArgument);
  EXPECT_THROW(made_with({150, 100}), InvalidArgument);
  EXPECT_THROW(made_with({-1, 200}), InvalidArgument);
  EXPECT_THROW(made_with({100, 200}, DataType::kStringUtf8), InvalidArgument);
  options.columns = {{0, 150}};
  EXPECT_THROW(made_with({150}), InvalidArgument);
  EXPECT_NO_THROW(made_with({150, 151}));
}

}  // namespace
}  // namespace penstock::pipeline
