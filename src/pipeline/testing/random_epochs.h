#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "pipeline/stream/make_stream.h"
#include "pipeline/testing/memory_matrix.h"

// Random epochs over a MemoryMatrix, and a reader that checks all their values.

namespace penstock::pipeline::testing {

inline constexpr uint64_t kAmple = 64_MiB;

/// Reads an epoch to its end, checks every value against the matrix and returns the order of
/// joinids. `repeated` gets the places in that order of rows that are marked as repeated.
inline std::vector<int64_t> read_epoch(const std::shared_ptr<MemoryMatrix>& matrix,
                                       const LoaderOptions& options, LoaderStats* stats = nullptr,
                                       std::vector<size_t>* repeated = nullptr) {
  const auto stream = make_stream(matrix, options);
  const RowSelection rows =
      options.rows ? *options.rows : RowSelection::range(0, matrix->options().rows);
  std::vector<int64_t> column_of(static_cast<size_t>(matrix->options().columns), -1);
  for (size_t i = 0; i < column_of.size(); ++i) column_of[i] = static_cast<int64_t>(i);
  if (options.columns) {
    std::fill(column_of.begin(), column_of.end(), -1);
    for (size_t i = 0; i < options.columns->size(); ++i) {
      column_of[static_cast<size_t>((*options.columns)[i])] = static_cast<int64_t>(i);
    }
  }
  std::vector<int64_t> order;
  uint64_t batches = 0;
  while (auto batch = stream->next()) {
    ++batches;
    if (repeated != nullptr && batch->repeated_row()) {
      repeated->push_back(order.size() + *batch->repeated_row());
    }
    const bool is_exact = options.uneven == UnevenRows::kExact;
    EXPECT_LE(batch->rows(), options.batch_size + (is_exact && options.batch_size == 1 ? 1 : 0));
    // With fewer rows than ranks, some ranks have an empty batch.
    const auto* drawn = std::get_if<RowSampling>(&options.order);
    const uint64_t cells = drawn != nullptr ? drawn->samples : rows.size();
    if (!is_exact || cells >= options.world_size) {
      EXPECT_GT(batch->rows(), 0U);
    }
    for (uint32_t i = 0; i < batch->rows(); ++i) {
      const int64_t joinid = batch->joinids()[i];
      order.push_back(joinid);
      EXPECT_EQ(rows.at(static_cast<uint64_t>(batch->positions()[i])), joinid);
      const auto& row = matrix->row(joinid);
      std::vector<int32_t> columns;
      std::vector<float> values;
      for (size_t k = 0; k < row.columns.size(); ++k) {
        const int64_t column = column_of[static_cast<size_t>(row.columns[k])];
        if (column < 0) continue;
        columns.push_back(static_cast<int32_t>(column));
        values.push_back(row.values[k]);
      }
      if (options.layout == BatchLayout::kCsr) {
        const auto csr = batch->csr();
        const auto begin = static_cast<size_t>(csr.indptr[i]);
        const auto end = static_cast<size_t>(csr.indptr[i + 1]);
        EXPECT_EQ(end - begin, columns.size());
        if (end - begin != columns.size()) return order;
        for (size_t k = 0; k < columns.size(); ++k) {
          EXPECT_EQ(csr.indices[begin + k], columns[k]);
          if (options.dtype == DataType::kFloat64) {
            EXPECT_EQ(reinterpret_cast<const double*>(csr.data)[begin + k], double{values[k]});
          } else {
            EXPECT_EQ(reinterpret_cast<const float*>(csr.data)[begin + k], values[k]);
          }
        }
      } else {
        std::vector<double> expected(batch->columns(), 0.0);
        for (size_t k = 0; k < columns.size(); ++k) {
          expected[static_cast<size_t>(columns[k])] += double{values[k]};
        }
        for (uint32_t c = 0; c < batch->columns(); ++c) {
          const size_t at = size_t{i} * batch->columns() + c;
          const double got = options.dtype == DataType::kFloat64
                                 ? reinterpret_cast<const double*>(batch->dense())[at]
                                 : double{reinterpret_cast<const float*>(batch->dense())[at]};
          EXPECT_EQ(got, expected[c]);
        }
      }
    }
  }
  EXPECT_EQ(batches, stream->size() - options.first_batch);
  if (options.first_batch == 0) {
    EXPECT_EQ(order.size(), stream->row_count());
  }
  EXPECT_EQ(stream->next(), nullptr);
  EXPECT_EQ(stream->next_for(0.01).batch, nullptr);
  const LoaderStats seen = stream->stats();
  EXPECT_EQ(seen.cells, order.size());
  EXPECT_EQ(seen.batches, batches);
  if (stats != nullptr) *stats = seen;
  return order;
}

inline RowSelection random_selection(std::mt19937_64& random, int64_t rows) {
  switch (random() % 4) {
    case 0:
      return RowSelection::range(0, rows);
    case 1: {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
      return RowSelection::range(begin, rows);
    }
    default: {
      const double share = std::array{0.01, 0.3, 0.9}[random() % 3];
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < rows; ++i) {
        if (std::uniform_real_distribution<>()(random) < share) ids.push_back(i);
      }
      return RowSelection::from_sorted(ids);
    }
  }
}

struct Case {
  std::shared_ptr<MemoryMatrix> matrix;
  LoaderOptions options;
};

inline bool is_ordered(const Case& test) {
  return std::holds_alternative<StoredOrder>(test.options.order);
}

inline Case random_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryMatrixOptions matrix;
  matrix.seed = seed;
  matrix.rows = 1 + static_cast<int64_t>(random() % 700);
  matrix.columns = 1 + static_cast<int64_t>(random() % 60);
  matrix.max_nnz = static_cast<uint32_t>(random() % 30);
  matrix.rare_values = std::array{0.0, 0.02, 0.6}[random() % 3];
  matrix.max_unit_rows = 1 + static_cast<int64_t>(random() % 80);
  matrix.estimate_factor = std::array{1.0, 1.0, 1.3}[random() % 3];
  matrix.fetch_microseconds = random() % 8 == 0 ? 200 : 0;
  matrix.task_microseconds = random() % 8 == 0 ? 50 : 0;
  Case result;
  result.matrix = std::make_shared<MemoryMatrix>(matrix);
  LoaderOptions& options = result.options;
  options.rows = random_selection(random, matrix.rows);
  if (random() % 3 == 0) {
    std::vector<int64_t> columns;
    for (int64_t i = 0; i < matrix.columns; ++i) {
      if (random() % 2 == 0) columns.push_back(i);
    }
    options.columns = columns;
  }
  options.batch_size = 1 + static_cast<uint32_t>(random() % (random() % 2 == 0 ? 20 : 300));
  options.seed = random();
  options.epoch = random() % 5;
  if (random() % 5 == 0) options.order = StoredOrder{};
  options.layout = random() % 2 == 0 ? BatchLayout::kCsr : BatchLayout::kDense;
  options.dtype = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64;
  options.memory_budget = kAmple;
  options.drop_last = random() % 4 == 0;
  options.threads = 1;
  return result;
}

/// Like random_case, but so small that thousands take seconds.
inline Case tiny_case(uint64_t seed) {
  Case test = random_case(seed);
  MemoryMatrixOptions matrix = test.matrix->options();
  std::mt19937_64 random(seed + 1);
  matrix.rows = 1 + static_cast<int64_t>(random() % (seed % 8 == 0 ? 300 : 90));
  matrix.columns = 1 + matrix.columns % 20;
  matrix.max_nnz = matrix.max_nnz % 12;
  matrix.max_unit_rows = 1 + matrix.max_unit_rows % 24;
  matrix.fetch_microseconds = 0;
  matrix.task_microseconds = 0;
  test.matrix = std::make_shared<MemoryMatrix>(matrix);
  LoaderOptions& options = test.options;
  options.rows = random_selection(random, matrix.rows);
  if (options.columns)
    std::erase_if(*options.columns, [&](int64_t c) { return c >= matrix.columns; });
  options.batch_size = 1 + options.batch_size % (random() % 4 == 0 ? 200 : 24);
  return test;
}

/// Returns the least budget that works for a case, from the error for a budget of 1 byte.
inline uint64_t least_budget(Case test) {
  test.options.memory_budget = 1;
  try {
    make_stream(test.matrix, test.options);
    return 1;
  } catch (const ResourceExhausted& error) {
    const std::string text = error.what();
    return std::stoull(text.substr(text.find("at least ") + 9));
  }
}

}  // namespace penstock::pipeline::testing
