#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "pipeline/epoch_stream.h"
#include "pipeline/testing/random_epochs.h"

namespace penstock::pipeline {
namespace {

using testing::Fault;
using testing::kAmple;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;

TEST(EpochStreamFailures, BadOptionsAreInvalidArguments) {
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

TEST(EpochStreamFailures, AFaultAnywhereSurfacesOnceAndNothingHangs) {
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
      options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(round % 3)];
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

TEST(EpochStreamFailures, AValueThatDoesNotFitNamesCellAndGene) {
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

TEST(EpochStreamFailures, CancelAndDestructionAtAnyMoment) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    MemoryMatrixOptions matrix;
    matrix.rows = 500;
    matrix.max_unit_rows = 16;
    matrix.fetch_microseconds = round % 3 == 0 ? 300 : 0;
    matrix.task_microseconds = round % 5 == 0 ? 30 : 0;
    LoaderOptions options;
    options.batch_size = 8;
    options.threads = std::array{1U, 2U, 8U}[static_cast<size_t>(random() % 3)];
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

TEST(EpochStreamFailures, AForkedChildIsRefusedAndUnharmed) {
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

}  // namespace
}  // namespace penstock::pipeline
