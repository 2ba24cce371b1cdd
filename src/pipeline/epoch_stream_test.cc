#include "pipeline/epoch_stream.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "pipeline/testing/memory_matrix.h"

namespace penstock::pipeline {
namespace {

using testing::Fault;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;

constexpr uint64_t kAmple = 64_MiB;

/// Reads an epoch to its end, checks every value against the matrix and gives the order of joinids.
std::vector<int64_t> read_epoch(const std::shared_ptr<MemoryMatrix>& matrix,
                                const LoaderOptions& options, LoaderStats* stats = nullptr) {
  EpochStream stream(matrix, options);
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
  while (auto batch = stream.next(-1, nullptr)) {
    ++batches;
    EXPECT_LE(batch->rows(), options.batch_size);
    // Ranks that must make equally many batches may have an empty one.
    if (options.world_size * options.num_workers == 1) {
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
  EXPECT_EQ(batches, stream.size());
  EXPECT_EQ(order.size(), stream.row_count());
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  EXPECT_EQ(stream.next(0.01, nullptr), nullptr);
  const LoaderStats seen = stream.stats();
  EXPECT_EQ(seen.cells, order.size());
  EXPECT_EQ(seen.batches, batches);
  if (stats != nullptr) *stats = seen;
  return order;
}

RowSelection random_selection(std::mt19937_64& random, int64_t rows) {
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

Case random_case(uint64_t seed) {
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
  options.shuffle = random() % 5 != 0;
  options.layout = random() % 2 == 0 ? BatchLayout::kCsr : BatchLayout::kDense;
  options.dtype = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64;
  options.memory_budget = kAmple;
  options.drop_last = random() % 4 == 0;
  options.threads = 1;
  return result;
}

/// The least budget that a case is accepted with: what the refusal of a budget of 1 byte says.
uint64_t least_budget(Case test) {
  test.options.memory_budget = 1;
  try {
    EpochStream stream(test.matrix, test.options);
    return 1;
  } catch (const ResourceExhausted& error) {
    const std::string text = error.what();
    const size_t at = text.find("and ");
    return std::stoull(text.substr(at + 4));
  }
}

TEST(EpochStream, EverySelectedRowOnceForRandomShapes) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case test = random_case(seed);
    const uint64_t least = least_budget(test);
    test.options.memory_budget = seed % 3 == 0 ? kAmple : least + (seed % 3 - 1) * least;
    LoaderStats stats;
    test.options.threads = std::array{1U, 2U, 8U}[seed % 3];
    const auto order = read_epoch(test.matrix, test.options, &stats);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    auto expected = test.options.rows->to_vector();
    if (test.options.drop_last) {
      ASSERT_EQ(order.size(), expected.size() / test.options.batch_size * test.options.batch_size);
      ASSERT_TRUE(std::includes(expected.begin(), expected.end(), sorted.begin(), sorted.end()));
      ASSERT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
    } else {
      ASSERT_EQ(sorted, expected);
    }
    if (!test.options.shuffle && !test.options.drop_last) {
      ASSERT_EQ(order, expected);
    }
    ASSERT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    ASSERT_EQ(stats.spilled_bytes, 0U);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EpochStream, TheOrderIsTheSameForAnyNumberOfThreads) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case test = random_case(seed * 7919);
    if (seed % 2 == 0) test.options.memory_budget = least_budget(test) * 3 / 2;
    const auto one = read_epoch(test.matrix, test.options);
    test.options.threads = 8;
    ASSERT_EQ(read_epoch(test.matrix, test.options), one);
    if (one.size() < 20 || !test.options.shuffle) continue;
    ++test.options.epoch;
    ASSERT_NE(read_epoch(test.matrix, test.options), one);
  }
}

TEST(EpochStream, RanksAndWorkersShareTheRows) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case test = random_case(seed * 104729);
    if (seed % 10 == 0) test.options.rows = RowSelection::range(0, 1);  // most ranks have none
    test.options.drop_last = false;
    test.options.uneven = UnevenRows::kExact;
    test.options.world_size = 1 + static_cast<uint32_t>(seed % 4);
    test.options.num_workers = 1 + static_cast<uint32_t>(seed % 3);
    test.options.threads = 2;
    std::vector<int64_t> all;
    for (uint32_t rank = 0; rank < test.options.world_size; ++rank) {
      for (uint32_t worker = 0; worker < test.options.num_workers; ++worker) {
        test.options.rank = rank;
        test.options.worker = worker;
        const auto part = read_epoch(test.matrix, test.options);
        all.insert(all.end(), part.begin(), part.end());
      }
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all, test.options.rows->to_vector());
  }
}

TEST(EpochStream, AnEmptySelectionEndsAtOnce) {
  auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  LoaderOptions options;
  options.rows = RowSelection();
  EpochStream stream(matrix, options);
  EXPECT_EQ(stream.size(), 0U);
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  EXPECT_EQ(stream.stats().cells, 0U);
}

TEST(EpochStream, BadOptionsAreInvalidArguments) {
  auto matrix = std::make_shared<MemoryMatrix>(MemoryMatrixOptions{});
  const auto with = [&](auto change) {
    LoaderOptions options;
    change(options);
    EpochStream stream(matrix, options);
  };
  EXPECT_THROW(with([](auto& o) { o.batch_size = 0; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rank = 1; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.num_workers = 0; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.dtype = DataType::kStringUtf8; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rows = RowSelection::range(0, 1001); }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.memory_budget = 100; }), ResourceExhausted);
}

TEST(EpochStream, AFaultAnywhereSurfacesOnceAndNothingHangs) {
  const Fault places[] = {Fault::kStart, Fault::kFetch, Fault::kTask, Fault::kPack, Fault::kNnz};
  for (const Fault place : places) {
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE("place " + std::to_string(static_cast<int>(place)) + ", round " +
                   std::to_string(round));
      MemoryMatrixOptions matrix;
      matrix.rows = 400;
      matrix.max_unit_rows = 20;
      matrix.fault = place;
      matrix.fault_after = round < 10 ? round : (round * 7) % 350;
      LoaderOptions options;
      options.batch_size = 16;
      options.threads = std::array{1U, 2U, 8U}[round % 3];
      options.memory_budget = round % 2 == 0 ? kAmple : 200000;
      EpochStream stream(std::make_shared<MemoryMatrix>(matrix), options);
      int errors = 0;
      uint64_t batches = 0;
      for (bool going = true; going;) {
        try {
          going = stream.next(-1, nullptr) != nullptr;
          batches += going;
        } catch (const IoError& error) {
          EXPECT_STREQ(error.what(), "injected fault");
          ++errors;
        }
      }
      EXPECT_EQ(stream.next(-1, nullptr), nullptr);
      if (errors == 0) {
        EXPECT_EQ(batches, stream.size());  // the fault came later than the last call
      } else {
        EXPECT_EQ(errors, 1);
      }
    }
  }
}

TEST(EpochStream, AValueThatDoesNotFitNamesCellAndGene) {
  MemoryMatrixOptions options;
  options.rows = 50;
  options.rare_values = 0.3;
  auto matrix = std::make_shared<MemoryMatrix>(options);
  for (const BatchLayout layout : {BatchLayout::kCsr, BatchLayout::kDense}) {
    LoaderOptions loader;
    loader.layout = layout;
    loader.dtype = DataType::kUInt8;
    loader.threads = 2;
    EpochStream stream(matrix, loader);
    try {
      while (stream.next(-1, nullptr) != nullptr) {
      }
      FAIL() << "no error";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("uint8"), std::string::npos) << text;
      EXPECT_NE(text.find("in cell "), std::string::npos) << text;
      EXPECT_NE(text.find(", gene "), std::string::npos) << text;
    }
    EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  }
}

TEST(EpochStream, CancelAndDestructionAtAnyMoment) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    MemoryMatrixOptions matrix;
    matrix.rows = 500;
    matrix.max_unit_rows = 16;
    matrix.fetch_microseconds = round % 3 == 0 ? 300 : 0;
    matrix.task_microseconds = round % 5 == 0 ? 30 : 0;
    LoaderOptions options;
    options.batch_size = 8;
    options.threads = std::array{1U, 2U, 8U}[random() % 3];
    auto stream = std::make_unique<EpochStream>(std::make_shared<MemoryMatrix>(matrix), options);
    std::shared_ptr<const Batch> kept;
    const uint64_t taken = random() % 40;
    const auto delay = std::chrono::microseconds(random() % 2000);
    if (round % 2 == 0) {
      std::thread canceller([&, delay] {
        std::this_thread::sleep_for(delay);
        stream->cancel();
        stream->cancel();
      });
      while (auto batch = stream->next(-1, nullptr)) kept = batch;
      canceller.join();
      EXPECT_EQ(stream->next(-1, nullptr), nullptr);
    } else {
      for (uint64_t i = 0; i < taken; ++i) kept = stream->next(-1, nullptr);
    }
    stream.reset();
    // A batch outlives its loader.
    if (kept == nullptr) continue;
    EXPECT_EQ(kept->csr().indptr.size(), kept->rows() + 1);
  }
}

TEST(EpochStream, TheTimeoutGivesUpAndLosesNothing) {
  MemoryMatrixOptions matrix;
  matrix.rows = 60;
  matrix.max_unit_rows = 10;
  matrix.fetch_microseconds = 20000;
  LoaderOptions options;
  options.batch_size = 7;
  options.threads = 1;
  options.memory_budget = 100000;
  EpochStream stream(std::make_shared<MemoryMatrix>(matrix), options);
  int timeouts = 0;
  uint64_t rows = 0;
  for (;;) {
    bool timed_out = false;
    const auto batch = stream.next(0.001, &timed_out);
    if (batch == nullptr && !timed_out) break;
    timeouts += timed_out;
    if (batch != nullptr) rows += batch->rows();
  }
  EXPECT_GT(timeouts, 0);
  EXPECT_EQ(rows, 60U);
  EXPECT_GT(stream.stats().consumer_wait_seconds, 0.0);
}

TEST(EpochStream, AConsumerThatKeepsEveryBatchGetsThemAll) {
  MemoryMatrixOptions matrix;
  matrix.rows = 2000;
  LoaderOptions options;
  options.batch_size = 16;
  options.threads = 2;
  options.memory_budget = 400000;
  std::vector<std::shared_ptr<const Batch>> kept;
  {
    EpochStream stream(std::make_shared<MemoryMatrix>(matrix), options);
    while (auto batch = stream.next(-1, nullptr)) kept.push_back(batch);
  }
  uint64_t rows = 0;
  for (const auto& batch : kept) rows += batch->rows();
  EXPECT_EQ(rows, 2000U);
}

TEST(EpochStream, ALowEstimateSpillsAndStaysExact) {
  MemoryMatrixOptions matrix;
  matrix.rows = 20000;
  matrix.columns = 400;
  matrix.max_nnz = 300;
  matrix.max_unit_rows = 400;
  matrix.estimate_factor = 0.2;
  matrix.giant_row_every = 500;
  Case test{std::make_shared<MemoryMatrix>(matrix), {}};
  test.options.threads = 2;
  test.options.memory_budget = 3000000;
  LoaderStats stats;
  auto order = read_epoch(test.matrix, test.options, &stats);
  EXPECT_GT(stats.spilled_bytes, 0U);
  EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, RowSelection::range(0, 20000).to_vector());

  ::setenv("TMPDIR", "/does-not-exist", 1);
  EXPECT_THROW(read_epoch(test.matrix, test.options), ResourceExhausted);
  ::unsetenv("TMPDIR");
}

TEST(EpochStream, AForkedChildIsRefusedAndUnharmed) {
  MemoryMatrixOptions matrix;
  matrix.rows = 500;
  LoaderOptions options;
  options.batch_size = 10;
  options.threads = 2;
  auto* const stream = new EpochStream(std::make_shared<MemoryMatrix>(matrix), options);
  auto batch = stream->next(-1, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      stream->next(-1, nullptr);
    } catch (const InvalidArgument&) {
      status = 0;
    }
    stream->cancel();
    batch.reset();
    ::_exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  uint64_t rows = batch->rows();
  while (const auto next = stream->next(-1, nullptr)) rows += next->rows();
  EXPECT_EQ(rows, 500U);
  delete stream;
}

TEST(EpochStream, SlowConsumerKeepsWithinItsRing) {
  MemoryMatrixOptions matrix;
  matrix.rows = 3000;
  LoaderOptions options;
  options.batch_size = 64;
  options.threads = 8;
  options.memory_budget = 300000;
  EpochStream stream(std::make_shared<MemoryMatrix>(matrix), options);
  while (auto batch = stream.next(-1, nullptr)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(stream.stats().peak_buffered_bytes, options.memory_budget);
  EXPECT_EQ(stream.stats().cells, 3000U);
}

}  // namespace
}  // namespace penstock::pipeline
