#include "pipeline/stream/batch_stream.h"

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

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_stream.h"
#include "pipeline/stream/make_stream.h"
#include "pipeline/stream/row_stream.h"
#include "pipeline/testing/random_epochs.h"

// Tests that hold for every stream of batches, read by units or row by row.

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::Fault;
using testing::kAmple;
using testing::least_budget;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::random_case;
using testing::read_epoch;
using testing::tiny_case;

enum class Reads { kUnits, kRows };

class AnyStream : public ::testing::TestWithParam<Reads> {
 protected:
  bool by_rows() const { return GetParam() == Reads::kRows; }

  /// Makes a case, either with a store that addresses rows and a global order, or with neither.
  Case made(MemoryMatrixOptions matrix, LoaderOptions options = {}) const {
    matrix.addresses_rows = by_rows();
    if (by_rows()) options.order = GlobalShuffle{};
    return {std::make_shared<MemoryMatrix>(matrix), options};
  }

  /// The case of a seed, shuffled where rows are read one by one.
  Case random(uint64_t seed) const {
    const Case found = by_rows() ? tiny_case(seed) : random_case(seed);
    return made(found.matrix->options(), found.options);
  }

  static std::unique_ptr<BatchStream> stream_of(const Case& test) {
    return make_stream(test.matrix, test.options);
  }

  static uint64_t count_rows(BatchStream& stream) {
    uint64_t rows = 0;
    while (const auto batch = stream.next()) rows += batch->rows();
    return rows;
  }
};

TEST_P(AnyStream, IsOfItsKind) {
  const auto stream = stream_of(made({}));
  EXPECT_EQ(dynamic_cast<RowStream*>(stream.get()) != nullptr, by_rows());
  EXPECT_EQ(dynamic_cast<EpochStream*>(stream.get()) != nullptr, !by_rows());
}

TEST_P(AnyStream, BadOptionsAreInvalidArguments) {
  const auto with = [&](auto change) {
    Case test = made({});
    change(test.options);
    return stream_of(test);
  };
  EXPECT_NO_THROW(with([](auto&) {}));
  EXPECT_THROW(with([](auto& o) { o.batch_size = 0; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rank = 1; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.num_workers = 0; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.dtype = DataType::kStringUtf8; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.rows = RowSelection::range(0, 1001); }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.first_batch = 1000; }), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.memory_budget = 100; }), ResourceExhausted);
}

TEST_P(AnyStream, AnEmptySelectionEndsAtOnce) {
  LoaderOptions options;
  options.rows = RowSelection();
  const auto stream = stream_of(made({}, options));
  EXPECT_EQ(stream->size(), 0U);
  EXPECT_EQ(stream->next(), nullptr);
  EXPECT_EQ(stream->next(), nullptr);
  EXPECT_EQ(stream->stats().cells, 0U);
}

TEST_P(AnyStream, RanksAndWorkersShareTheRows) {
  for (uint64_t number = 1; number <= 60; ++number) {
    const TestSeed seed(number);
    Case test = random(seed * 104729);
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

TEST_P(AnyStream, AFaultAnywhereSurfacesOnceAndNothingHangs) {
  const std::vector<Fault> places =
      by_rows()
          ? std::vector{Fault::kRead}
          : std::vector{Fault::kStart, Fault::kFetch, Fault::kTask, Fault::kPack, Fault::kNnz};
  for (const Fault place : places) {
    int surfaced = 0;
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE("place " + std::to_string(static_cast<int>(place)) + ", round " +
                   std::to_string(round));
      MemoryMatrixOptions matrix;
      matrix.rows = 400;
      matrix.max_unit_rows = 20;
      matrix.fault = place;
      // Rows are read once a batch.
      matrix.fault_after = by_rows() ? round % 30 : round < 10 ? round : (round * 7) % 350;
      matrix.fetch_microseconds = round % 4 == 0 ? 100 : 0;
      LoaderOptions options;
      options.batch_size = 16;
      options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(round % 3)];
      options.memory_budget = round % 2 == 0 ? kAmple : 200000;
      const Case test = made(matrix, options);
      const auto stream = stream_of(test);
      int errors = 0;
      uint64_t batches = 0;
      for (bool going = true; going;) {
        try {
          going = stream->next() != nullptr;
          batches += going;
        } catch (const IoError& error) {
          EXPECT_STREQ(error.what(), "injected fault");
          ++errors;
        }
      }
      EXPECT_EQ(stream->next(), nullptr);
      if (by_rows()) {
        EXPECT_EQ(errors, matrix.fault_after < 25 ? 1 : 0);
      }
      EXPECT_EQ(errors, test.matrix->fault_fired() ? 1 : 0);
      if (errors == 0) {
        EXPECT_EQ(batches, stream->size());  // the fault came later than the last call
      } else {
        ++surfaced;
      }
    }
    EXPECT_GE(surfaced, 10) << "place " << static_cast<int>(place);
  }
}

TEST_P(AnyStream, AValueThatDoesNotFitNamesCellAndGene) {
  MemoryMatrixOptions matrix;
  matrix.rows = 50;
  matrix.rare_values = 0.3;
  for (const BatchLayout layout : {BatchLayout::kCsr, BatchLayout::kDense}) {
    LoaderOptions options;
    options.layout = layout;
    options.dtype = DataType::kUInt8;
    options.threads = 2;
    const auto stream = stream_of(made(matrix, options));
    try {
      count_rows(*stream);
      FAIL() << "no error";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("uint8"), std::string::npos) << text;
      EXPECT_NE(text.find("in cell "), std::string::npos) << text;
      EXPECT_NE(text.find(", gene "), std::string::npos) << text;
    }
    EXPECT_EQ(stream->next(), nullptr);
  }
}

TEST_P(AnyStream, CancelAndDestructionAtAnyMoment) {
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    MemoryMatrixOptions matrix;
    matrix.rows = 500;
    matrix.max_unit_rows = 16;
    matrix.fetch_microseconds = round % 3 == 0 ? 300 : 0;
    matrix.task_microseconds = round % 5 == 0 ? 30 : 0;
    LoaderOptions options;
    options.batch_size = 8;
    options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(random() % 3)];
    auto stream = stream_of(made(matrix, options));
    std::shared_ptr<const Batch> kept;
    const uint64_t taken = random() % 40;
    const auto delay = std::chrono::microseconds(random() % 2000);
    if (round % 2 == 0) {
      std::thread canceller([&, delay] {
        std::this_thread::sleep_for(delay);
        stream->cancel();
        stream->cancel();
      });
      while (auto batch = stream->next()) kept = batch;
      canceller.join();
      EXPECT_EQ(stream->next(), nullptr);
    } else {
      for (uint64_t i = 0; i < taken; ++i) kept = stream->next();
    }
    stream.reset();
    // A batch outlives its loader.
    if (kept == nullptr) continue;
    EXPECT_EQ(kept->csr().indptr.size(), kept->rows() + 1);
  }
}

TEST_P(AnyStream, AConsumerThatKeepsEveryBatchGetsThemAll) {
  for (const unsigned threads : {1U, 2U, 8U}) {
    MemoryMatrixOptions matrix;
    matrix.rows = 2000;
    LoaderOptions options;
    options.batch_size = 16;
    options.threads = threads;
    Case test = made(matrix, options);
    test.options.memory_budget = 2 * least_budget(test);
    std::vector<std::shared_ptr<const Batch>> kept;
    {
      const auto stream = stream_of(test);
      while (auto batch = stream->next()) kept.push_back(batch);
    }
    uint64_t rows = 0;
    for (const auto& batch : kept) rows += batch->rows();
    EXPECT_EQ(rows, 2000U);
  }
}

TEST_P(AnyStream, TheTimeoutGivesUpAndLosesNothing) {
  MemoryMatrixOptions matrix;
  matrix.rows = 60;
  matrix.max_unit_rows = 10;
  matrix.fetch_microseconds = 20000;
  LoaderOptions options;
  options.batch_size = 7;
  options.threads = 1;
  options.memory_budget = 100000;
  const auto stream = stream_of(made(matrix, options));
  int timeouts = 0;
  uint64_t rows = 0;
  for (;;) {
    const Loader::NextBatch next = stream->next_for(0.001);
    if (next.batch == nullptr && !next.timed_out) break;
    timeouts += next.timed_out ? 1 : 0;
    if (next.batch != nullptr) rows += next.batch->rows();
  }
  EXPECT_GT(timeouts, 0);
  EXPECT_EQ(rows, 60U);
  EXPECT_GT(stream->stats().consumer_wait_seconds, 0.0);
}

TEST_P(AnyStream, AForkedChildIsRefusedAndUnharmed) {
  MemoryMatrixOptions matrix;
  matrix.rows = 500;
  LoaderOptions options;
  options.batch_size = 10;
  options.threads = 2;
  const auto stream = stream_of(made(matrix, options));
  auto batch = stream->next();
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      stream->next();
    } catch (const InvalidArgument&) {
      status = 0;
    }
    stream->cancel();
    batch.reset();
    ::_exit(status);  // no destructor: the stream's threads are not here
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(batch->rows() + count_rows(*stream), 500U);
}

INSTANTIATE_TEST_SUITE_P(Streams, AnyStream, ::testing::Values(Reads::kUnits, Reads::kRows),
                         [](const auto& each) {
                           return each.param == Reads::kRows ? "Rows" : "Units";
                         });

}  // namespace
}  // namespace penstock::pipeline
