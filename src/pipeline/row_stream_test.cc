#include "pipeline/row_stream.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::Fault;
using testing::kAmple;
using testing::least_budget;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::read_epoch;
using testing::tiny_case;

/// The same case with a global order; `by_rows`: from a store that can address rows.
Case global_case(Case test, bool by_rows) {
  MemoryMatrixOptions matrix = test.matrix->options();
  matrix.addresses_rows = by_rows;
  test.matrix = std::make_shared<MemoryMatrix>(matrix);
  test.options.shuffle = true;
  test.options.global_shuffle = true;
  return test;
}

void choose_share(Case& test, std::mt19937_64& random) {
  test.options.world_size = 1 + static_cast<uint32_t>(random() % 4);
  test.options.rank = static_cast<uint32_t>(random() % test.options.world_size);
  test.options.num_workers = 1 + static_cast<uint32_t>(random() % 3);
  test.options.worker = static_cast<uint32_t>(random() % test.options.num_workers);
  test.options.uneven = static_cast<UnevenRows>(random() % 3);
}

std::vector<int64_t> sorted(std::vector<int64_t> joinids) {
  std::sort(joinids.begin(), joinids.end());
  return joinids;
}

TEST(RowStream, OneOrderHoweverRowsAreReadForRandomShapes) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Case by_rows = global_case(tiny_case(seed), true);
    Case by_units = global_case(tiny_case(seed), false);
    if (seed % 2 == 0) {
      choose_share(by_rows, random);
      by_units.options = by_rows.options;
    }
    by_rows.options.threads = std::array{1U, 2U, 8U}[seed % 3];
    LoaderStats stats;
    const auto order = read_epoch(by_rows.matrix, by_rows.options, &stats);
    by_units.options.threads = 2;
    // From one block for all rows down to the least memory.
    const uint64_t least = least_budget(by_units);
    by_units.options.memory_budget =
        std::array{least, least + least / 8, 2 * least, kAmple}[seed % 4];
    LoaderStats unit_stats;
    ASSERT_EQ(read_epoch(by_units.matrix, by_units.options, &unit_stats), order);
    ASSERT_LE(unit_stats.peak_buffered_bytes, by_units.options.memory_budget);
    ASSERT_EQ(unit_stats.spilled_bytes, 0U);
    ASSERT_EQ(make_stream(by_rows.matrix, by_rows.options)->fingerprint(),
              make_stream(by_units.matrix, by_units.options)->fingerprint());
    if (seed % 2 != 0 && !by_rows.options.drop_last) {
      ASSERT_EQ(sorted(order), by_rows.options.rows->to_vector());
    }
    ASSERT_EQ(stats.bytes_read, stats.bytes_needed);
    by_rows.options.threads = 3;
    ASSERT_EQ(read_epoch(by_rows.matrix, by_rows.options), order);
    ++by_rows.options.epoch;
    if (order.size() >= 20) {
      ASSERT_NE(read_epoch(by_rows.matrix, by_rows.options), order);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RowStream, RanksAndWorkersShareTheRows) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case test = global_case(tiny_case(seed * 104729), true);
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
    ASSERT_EQ(sorted(all), test.options.rows->to_vector());
  }
}

TEST(RowStream, GoesOnWhereItWasForRandomShapes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Case test = global_case(tiny_case(seed * 31), seed % 4 != 0);
    test.options.threads = seed % 2 == 0 ? 1 : 3;
    choose_share(test, random);
    LoaderStats whole_stats;
    std::vector<size_t> repeated;
    const auto whole = read_epoch(test.matrix, test.options, &whole_stats, &repeated);
    ASSERT_LE(repeated.size(), test.options.uneven == UnevenRows::kPad ? 1U : 0U);
    const uint64_t batches = whole_stats.batches;
    for (const uint64_t first : {uint64_t{1}, batches / 2, batches - 1, batches}) {
      if (first == 0 || first > batches) continue;
      test.options.first_batch = first;
      LoaderStats stats;
      const auto rest = read_epoch(test.matrix, test.options, &stats);
      ASSERT_LE(rest.size(), whole.size());
      const std::vector<int64_t> expected(whole.end() - static_cast<ptrdiff_t>(rest.size()),
                                          whole.end());
      ASSERT_EQ(rest, expected) << "from batch " << first << " of " << batches;
      ASSERT_EQ(stats.batches, batches - first);
      std::vector<int64_t> before(whole.begin(), whole.end() - static_cast<ptrdiff_t>(rest.size()));
      for (const size_t place : repeated) {
        if (place < before.size()) before.erase(before.begin() + static_cast<ptrdiff_t>(place));
      }
      const auto stream = make_stream(test.matrix, test.options);
      ASSERT_EQ(stream->rows_before().to_vector(), sorted(before));
      ASSERT_EQ(stream->row_count_before(), before.size());
    }
    test.options.first_batch = batches + 1;
    ASSERT_THROW(make_stream(test.matrix, test.options), InvalidArgument);
  }
}

// Rows of any size in small batches may be larger than their mean by more than any margin; batches
// of some rows may not.
TEST(RowStream, KeepsToItsBudget) {
  for (uint64_t seed = 1; seed <= 36; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MemoryMatrixOptions matrix;
    matrix.seed = seed;
    matrix.rows = 2000;
    matrix.columns = 700;
    matrix.max_nnz = 200;
    matrix.addresses_rows = true;
    Case test{std::make_shared<MemoryMatrix>(matrix), {}};
    test.options.global_shuffle = true;
    test.options.batch_size = std::array{32U, 100U, 333U}[seed % 3];
    test.options.layout = seed % 2 == 0 ? BatchLayout::kCsr : BatchLayout::kDense;
    const uint64_t least = least_budget(test);
    test.options.threads = std::array{1U, 2U, 8U}[seed / 3 % 3];
    test.options.memory_budget = std::array{least, least * 3 / 2, 3 * least, 9 * least}[seed % 4];
    const RowStream stream(test.matrix, test.options);
    EXPECT_LE(stream.stats().planned_bytes, test.options.memory_budget);
    EXPECT_LE(stream.budget().readers, test.options.threads);
    LoaderStats stats;
    const auto order = read_epoch(test.matrix, test.options, &stats);
    EXPECT_EQ(order.size(), 2000U);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RowStream, BadOptionsAreInvalidArguments) {
  MemoryMatrixOptions rows;
  rows.addresses_rows = true;
  auto matrix = std::make_shared<MemoryMatrix>(rows);
  const auto with = [&](auto change) {
    LoaderOptions options;
    options.global_shuffle = true;
    change(options);
    return make_stream(matrix, options);
  };
  EXPECT_NO_THROW(with([](auto&) {}));
  EXPECT_THROW(with([](auto& o) { o.batch_size = 0; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rank = 1; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.shuffle = false; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.chunks = ChunkShuffle{}; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rows = RowSelection::range(0, 1001); }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.memory_budget = 100; }), ResourceExhausted);
  EXPECT_THROW(RowStream(std::make_shared<MemoryMatrix>(MemoryMatrixOptions{}), LoaderOptions{}),
               InvalidArgument);  // rows cannot be addressed
}

TEST(RowStream, AnEmptySelectionEndsAtOnce) {
  MemoryMatrixOptions matrix;
  matrix.addresses_rows = true;
  LoaderOptions options;
  options.global_shuffle = true;
  options.rows = RowSelection();
  RowStream stream(std::make_shared<MemoryMatrix>(matrix), options);
  EXPECT_EQ(stream.size(), 0U);
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
  EXPECT_EQ(stream.stats().cells, 0U);
}

TEST(RowStream, AFaultAnywhereSurfacesOnceAndNothingHangs) {
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    MemoryMatrixOptions matrix;
    matrix.rows = 400;
    matrix.addresses_rows = true;
    matrix.fault = Fault::kRead;
    matrix.fault_after = round % 30;
    matrix.fetch_microseconds = round % 4 == 0 ? 100 : 0;
    LoaderOptions options;
    options.global_shuffle = true;
    options.batch_size = 16;
    options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(round % 3)];
    RowStream stream(std::make_shared<MemoryMatrix>(matrix), options);
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
    EXPECT_EQ(errors, matrix.fault_after < 25 ? 1 : 0);
    if (errors == 0) {
      EXPECT_EQ(batches, stream.size());
    }
  }
}

TEST(RowStream, AValueThatDoesNotFitNamesCellAndGene) {
  MemoryMatrixOptions matrix;
  matrix.rows = 50;
  matrix.rare_values = 0.3;
  matrix.addresses_rows = true;
  LoaderOptions options;
  options.global_shuffle = true;
  options.dtype = DataType::kUInt8;
  options.threads = 2;
  RowStream stream(std::make_shared<MemoryMatrix>(matrix), options);
  EXPECT_THROW(
      {
        while (stream.next(-1, nullptr) != nullptr) {
        }
      },
      InvalidArgument);
  EXPECT_EQ(stream.next(-1, nullptr), nullptr);
}

TEST(RowStream, CancelAndDestructionAtAnyMoment) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    MemoryMatrixOptions matrix;
    matrix.rows = 500;
    matrix.addresses_rows = true;
    matrix.fetch_microseconds = round % 3 == 0 ? 300 : 0;
    LoaderOptions options;
    options.global_shuffle = true;
    options.batch_size = 8;
    options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(random() % 3)];
    auto stream = std::make_unique<RowStream>(std::make_shared<MemoryMatrix>(matrix), options);
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

TEST(RowStream, AConsumerThatKeepsEveryBatchGetsThemAll) {
  for (const unsigned threads : {1U, 2U, 8U}) {
    MemoryMatrixOptions matrix;
    matrix.rows = 2000;
    matrix.addresses_rows = true;
    Case test{std::make_shared<MemoryMatrix>(matrix), {}};
    test.options.global_shuffle = true;
    test.options.batch_size = 16;
    test.options.threads = threads;
    test.options.memory_budget = 2 * least_budget(test);
    std::vector<std::shared_ptr<const Batch>> kept;
    {
      RowStream stream(test.matrix, test.options);
      while (auto batch = stream.next(-1, nullptr)) kept.push_back(batch);
    }
    uint64_t rows = 0;
    for (const auto& batch : kept) rows += batch->rows();
    EXPECT_EQ(rows, 2000U);
  }
}

TEST(RowStream, TheTimeoutGivesUpAndLosesNothing) {
  MemoryMatrixOptions matrix;
  matrix.rows = 60;
  matrix.addresses_rows = true;
  matrix.fetch_microseconds = 20000;
  LoaderOptions options;
  options.global_shuffle = true;
  options.batch_size = 7;
  options.threads = 1;
  RowStream stream(std::make_shared<MemoryMatrix>(matrix), options);
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
}

TEST(RowStream, AForkedChildIsRefusedAndUnharmed) {
  MemoryMatrixOptions matrix;
  matrix.rows = 500;
  matrix.addresses_rows = true;
  LoaderOptions options;
  options.global_shuffle = true;
  options.batch_size = 10;
  options.threads = 2;
  auto* const stream = new RowStream(std::make_shared<MemoryMatrix>(matrix), options);
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

// Of units, an epoch reads the store once for every block that memory has room for.
TEST(GlobalShuffleOfUnits, ReadsLessWithMoreMemory) {
  MemoryMatrixOptions matrix;
  matrix.rows = 10'000;
  matrix.columns = 400;
  matrix.max_nnz = 200;
  matrix.max_unit_rows = 200;
  Case test{std::make_shared<MemoryMatrix>(matrix), {}};
  test.options.global_shuffle = true;
  LoaderStats all;
  test.options.memory_budget = kAmple;
  read_epoch(test.matrix, test.options, &all);
  EXPECT_EQ(all.bytes_read, all.bytes_needed);
  EXPECT_EQ(all.planned_bytes_read, all.bytes_needed);
  EXPECT_EQ(all.units_in_shuffle, all.units);
  uint64_t before = all.bytes_read;
  for (const uint64_t part : {2U, 3U}) {
    test.options.memory_budget = all.peak_buffered_bytes / part;
    LoaderStats stats;
    read_epoch(test.matrix, test.options, &stats);
    EXPECT_LE(stats.peak_buffered_bytes, test.options.memory_budget);
    EXPECT_EQ(stats.bytes_read, stats.planned_bytes_read);
    EXPECT_GT(stats.bytes_read, before);
    // Two blocks are in memory, and less than half of it is for anything else.
    EXPECT_LE(stats.bytes_read, all.bytes_read * (4 * part + 2));
    before = stats.bytes_read;
  }
}

}  // namespace
}  // namespace penstock::pipeline
