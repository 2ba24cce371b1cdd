#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/testing/test_seed.h"
#include "pipeline/stream/epoch_setup.h"
#include "pipeline/testing/random_epochs.h"

// Epochs whose rows stay in memory: KeptRows shared by loaders of one matrix. Every value is
// checked by read_epoch() against the matrix.

namespace penstock::pipeline {
namespace {

using testing::Case;
using testing::Fault;
using testing::MemoryMatrix;
using testing::MemoryMatrixOptions;
using testing::read_epoch;

/// Budgets from the least that works to one that holds everything.
uint64_t random_budget(std::mt19937_64& random, const Case& test) {
  const uint64_t least = testing::least_budget(test);
  const double factor = std::array{1.0, 1.2, 1.5, 2.0, 4.0}[random() % 5];
  return random() % 4 == 0 ? testing::kAmple
                           : static_cast<uint64_t>(static_cast<double>(least) * factor) + 1;
}

/// Thousands of rows, so that what is kept of them is more than what an epoch takes besides.
Case large_case(uint64_t seed, std::mt19937_64& random) {
  MemoryMatrixOptions shape;
  shape.rows = 4000 + static_cast<int64_t>(random() % 8000);
  shape.columns = 50 + static_cast<int64_t>(random() % 2000);
  shape.max_nnz = static_cast<uint32_t>(std::min<int64_t>(shape.columns, 200));
  shape.seed = seed;
  Case test{std::make_shared<MemoryMatrix>(shape), {}};
  test.options.batch_size = 1 + static_cast<uint32_t>(random() % 50);
  test.options.threads = 2;
  if (random() % 4 == 0) test.options.order = StoredOrder{};
  return test;
}

/// The largest budget with which rows are kept bit-packed, since it is too small for wide ones. The
/// least one holds them if they are packed as well as expected, and random counts are not.
uint64_t budget_for_packed_rows(const Case& test) {
  LoaderOptions options = test.options;
  options.kept = std::make_shared<KeptRows>();
  uint64_t packed = 0;
  for (uint64_t budget = testing::least_budget(test) + 1; budget < testing::kAmple;
       budget += budget / 64 + 1) {
    options.memory_budget = budget;
    const BudgetSplit split = make_epoch_setup(test.matrix, options).budget;
    if (split.keep_room == 0) continue;
    if (split.keep_form == format::KeptForm::kWide) break;
    packed = budget;
  }
  return packed;
}

/// A loader that begins at a later batch has the rest of the order: with the rows that are kept by
/// now, with others of its own, and without any.
void expect_resumes(const std::shared_ptr<MemoryMatrix>& matrix, LoaderOptions options,
                    const std::vector<int64_t>& order, std::mt19937_64& random) {
  const uint64_t batches = make_stream(matrix, options)->size();
  options.first_batch = random() % (batches + 1);
  SCOPED_TRACE(::testing::Message() << "from batch " << options.first_batch);
  for (const auto& kept : {options.kept, std::make_shared<KeptRows>(), {}}) {
    options.kept = kept;
    const auto rest = read_epoch(matrix, options);
    ASSERT_LE(rest.size(), order.size());
    EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), order.rbegin()));
    if (options.world_size == 1 && !order.empty()) {
      EXPECT_EQ(rest.size() == order.size(), options.first_batch == 0);
    }
  }
}

TEST(KeptEpochs, HaveTheOrderAndValuesOfEpochsWithoutThem) {
  const uint64_t rounds = test_rounds(400);
  uint64_t epochs = 0, from_memory = 0, partly = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    Case test = testing::tiny_case(own);
    std::mt19937_64 random(own);
    if (test.options.rows->empty()) continue;
    if (random() % 3 == 0) test.options.order = GlobalShuffle{};
    test.options.memory_budget = random_budget(random, test);
    test.options.threads = 1 + static_cast<unsigned>(random() % 3);
    auto kept = std::make_shared<KeptRows>();
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
      LoaderOptions options = test.options;
      options.epoch = epoch;
      const auto alone = read_epoch(test.matrix, options);
      options.kept = kept;
      LoaderStats stats;
      EXPECT_EQ(read_epoch(test.matrix, options, &stats), alone);
      EXPECT_LE(kept->bytes(), options.memory_budget);
      EXPECT_EQ(stats.kept_bytes, kept->bytes());
      expect_resumes(test.matrix, options, alone, random);
      ++epochs;
      from_memory += stats.bytes_read == 0 && stats.cells != 0 ? 1 : 0;
      partly += stats.kept_units != 0 && stats.kept_units < stats.units ? 1 : 0;
    }
  }
  EXPECT_GT(from_memory, epochs / 4);
  EXPECT_GT(partly, 0U);
  std::printf("%lu epochs, %lu from memory, %lu partly\n", epochs, from_memory, partly);
}

TEST(KeptEpochs, KeepRowsBitPackedThatDoNotFitAsTheyAre) {
  const uint64_t rounds = test_rounds(12);
  uint64_t from_memory = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case test = large_case(own, random);
    test.options.memory_budget = budget_for_packed_rows(test);
    ASSERT_NE(test.options.memory_budget, 0U);
    auto kept = std::make_shared<KeptRows>();
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
      if (epoch == 2) test.options.order = GlobalShuffle{};
      test.options.epoch = epoch;
      LoaderOptions options = test.options;
      const auto alone = read_epoch(test.matrix, options);
      options.kept = kept;
      LoaderStats stats;
      EXPECT_EQ(read_epoch(test.matrix, options, &stats), alone);
      EXPECT_EQ(kept->packed_rows(), kept->rows());
      // A block takes whole pages, so the last ones may not fit.
      EXPECT_GE(kept->rows(), static_cast<uint64_t>(test.matrix->options().rows) * 9 / 10);
      from_memory += stats.bytes_read == 0 ? 1 : 0;
      EXPECT_LE(kept->bytes(), options.memory_budget);
    }
  }
  EXPECT_GT(from_memory, rounds);  // of twice as many later epochs
}

TEST(KeptEpochs, KeepAPartOfWhatDoesNotFit) {
  const uint64_t rounds = test_rounds(60);
  uint64_t divided = 0, in_part = 0, more_units = 0, spilled = 0, spilled_without = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case test = large_case(own, random);
    test.options.memory_budget = testing::least_budget(test) * (4 + random() % 4);
    auto kept = std::make_shared<KeptRows>();
    LoaderOptions options = test.options;
    options.kept = kept;
    if (budget_that_keeps_all(test.matrix, options) != 0) continue;
    options.kept_memory = memory_for_part_of_rows(test.matrix, options);
    if (options.kept_memory == 0) continue;
    ++divided;
    options.memory_budget -= options.kept_memory;
    test.options.memory_budget = options.memory_budget;
    // What is kept leaves the memory to the others, of which more are mixed.
    const uint32_t spread = make_epoch_setup(test.matrix, test.options).budget.spread;
    test.options.kept_memory = options.kept_memory;
    const uint32_t beside_kept = make_epoch_setup(test.matrix, test.options).budget.spread;
    EXPECT_GE(beside_kept, spread);
    more_units += beside_kept > spread ? 1 : 0;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
      test.options.epoch = options.epoch = epoch;
      LoaderStats stats;
      LoaderStats without;
      const auto alone = read_epoch(test.matrix, test.options, &without);
      EXPECT_EQ(read_epoch(test.matrix, options, &stats), alone);
      expect_resumes(test.matrix, options, alone, random);
      spilled_without += without.spilled_bytes != 0 ? 1 : 0;
      EXPECT_LE(without.peak_buffered_bytes, options.memory_budget + options.kept_memory);
      EXPECT_LE(kept->bytes(), options.kept_memory);
      EXPECT_LE(stats.peak_buffered_bytes, options.memory_budget + options.kept_memory);
      spilled += stats.spilled_bytes != 0 ? 1 : 0;
      EXPECT_GT(kept->rows(), static_cast<uint64_t>(test.matrix->options().rows) / 5);
      EXPECT_EQ(kept->packed_rows(), kept->rows());
      if (epoch != 0) {
        EXPECT_GT(stats.kept_units, 0U);
      }
      // Rows that are packed better than expected may all fit.
      in_part += stats.kept_units < stats.units ? 1 : 0;
    }
  }
  EXPECT_GT(divided, rounds / 3);
  EXPECT_GT(in_part, 2 * divided);
  EXPECT_GT(more_units, divided / 2);
  // Random counts pack worse than is expected, so some rows may have to.
  EXPECT_LT(spilled + spilled_without, divided);
  std::printf(
      "%lu of %lu cases keep a part, %lu mix more units; %lu epochs spill, %lu if nothing is "
      "kept\n",
      divided, rounds, more_units, spilled, spilled_without);
}

// More units and batches are ahead with more memory, so a larger budget may leave less for rows.
TEST(KeptEpochs, KeepAllWithMoreMemoryToo) {
  uint64_t lowered = 0;
  for (uint64_t seed = 0; seed < 20 || (lowered < 3 && seed < 400); ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case test = large_case(own, random);
    test.options.kept = std::make_shared<KeptRows>();
    bool keeps = false;
    for (uint64_t budget = testing::least_budget(test) + 1; budget < testing::kAmple;
         budget += budget / 48 + 1) {
      LoaderOptions options = test.options;
      options.memory_budget = budget;
      const uint64_t enough = budget_that_keeps_all(test.matrix, options);
      EXPECT_LE(enough, budget);
      EXPECT_TRUE(enough != 0 || !keeps) << budget;
      keeps = enough != 0;
      if (enough == 0 || enough == budget) continue;
      if (lowered++ % 8 != 0) continue;
      options.memory_budget = enough;
      options.kept = std::make_shared<KeptRows>();
      LoaderStats stats;
      for (options.epoch = 0; options.epoch < 2; ++options.epoch) {
        read_epoch(test.matrix, options, &stats);
      }
      // Random counts are packed worse than is expected of real ones.
      EXPECT_GT(options.kept->rows(), static_cast<uint64_t>(test.matrix->options().rows) * 3 / 4);
    }
    EXPECT_TRUE(keeps);
  }
  EXPECT_GT(lowered, 2U);
  std::printf("%lu budgets are lowered\n", lowered);
}

// An epoch visits large units in parts, so parts of all units would be kept if rows were kept as
// they come, and hardly a visit would find all of its rows.
TEST(KeptEpochs, KeepWholeUnitsIfNotAllFit) {
  const uint64_t rounds = test_rounds(4);
  double all_rows = 0, all_visits = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    MemoryMatrixOptions shape;
    shape.rows = 60'000;
    shape.columns = 300;
    shape.max_nnz = 20;
    shape.max_unit_rows = 4000;
    shape.seed = own;
    Case test{std::make_shared<MemoryMatrix>(shape), {}};
    test.options.memory_budget = testing::kAmple;
    test.options.threads = 2;
    test.options.kept = std::make_shared<KeptRows>();
    test.options.kept_memory = 3'000'000;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
      test.options.epoch = epoch;
      LoaderStats stats;
      read_epoch(test.matrix, test.options, &stats);
      const double kept_rows = static_cast<double>(test.options.kept->rows()) / 60'000.0;
      const double kept_visits =
          static_cast<double>(stats.kept_units) / static_cast<double>(stats.units);
      EXPECT_GT(stats.units, 64U);
      if (epoch == 0) continue;
      EXPECT_GT(kept_rows, 0.1);
      EXPECT_LT(kept_rows, 0.9);
      all_rows += kept_rows;
      all_visits += kept_visits;
    }
  }
  EXPECT_GT(all_visits, 0.65 * all_rows);
}

// Splits, other genes, other layouts: loaders of one matrix that come and go with one KeptRows.
TEST(KeptEpochs, AreSharedByLoadersOfOtherCellsGenesAndBatches) {
  const uint64_t rounds = test_rounds(60);
  uint64_t from_memory = 0, loaders = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    const Case first = testing::tiny_case(own);
    std::mt19937_64 random(own);
    auto kept = std::make_shared<KeptRows>();
    std::vector<std::optional<std::vector<int64_t>>> genes = {std::nullopt, first.options.columns};
    if (first.options.columns) {
      genes.emplace_back().emplace();
      for (const int64_t column : *first.options.columns) {
        if (random() % 2 == 0) genes.back()->push_back(column);
      }
    }
    std::vector<RowSelection> cells;
    cells.reserve(3);
    for (int i = 0; i < 3; ++i) {
      cells.push_back(testing::random_selection(random, first.matrix->options().rows));
    }
    for (int step = 0; step < 24; ++step) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      Case test = testing::tiny_case(random());
      test.matrix = first.matrix;
      test.options.rows = cells[random() % cells.size()];
      test.options.columns = genes[random() % genes.size()];
      if (random() % 2 == 0) test.options.order = GlobalShuffle{};
      if (test.options.rows->empty()) continue;
      test.options.memory_budget = random_budget(random, test);
      const auto alone = read_epoch(test.matrix, test.options);
      test.options.kept = kept;
      LoaderStats stats;
      EXPECT_EQ(read_epoch(test.matrix, test.options, &stats), alone);
      from_memory += stats.bytes_read == 0 && stats.cells != 0 ? 1 : 0;
      ++loaders;
      if (random() % 10 == 0) kept->clear();
    }
    EXPECT_LE(kept->rows(), 3 * static_cast<uint64_t>(first.matrix->options().rows));
  }
  EXPECT_GT(from_memory, loaders / 8);
}

// Also in an order by units; what is kept stays for the loader with all genes.
TEST(KeptEpochs, OfFewerGenesReadNothing) {
  const uint64_t rounds = test_rounds(20);
  uint64_t packed = 0, by_units = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case all = large_case(own, random);
    all.options.columns = std::nullopt;
    all.options.memory_budget = seed % 2 == 0 ? testing::kAmple : budget_for_packed_rows(all);
    all.options.kept = std::make_shared<KeptRows>();
    read_epoch(all.matrix, all.options);
    const uint64_t rows = all.options.kept->rows();
    if (rows != static_cast<uint64_t>(all.matrix->options().rows)) continue;
    Case few = all;
    few.options.memory_budget *= 2;  // pages beside all that is kept
    few.options.columns.emplace();
    for (int64_t column = 0; column < all.matrix->options().columns; ++column) {
      if (random() % 4 == 0) few.options.columns->push_back(column);
    }
    if (random() % 2 == 0)
      few.options.rows = testing::random_selection(random, static_cast<int64_t>(rows));
    if (random() % 3 == 0) few.options.order = ChunkShuffle{};
    if (random() % 8 == 0) few.options.order = GlobalShuffle{};
    const bool global = std::holds_alternative<GlobalShuffle>(few.options.order);
    few.options.dtype = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64;
    LoaderOptions alone = few.options;
    alone.kept = nullptr;
    LoaderStats stats;
    EXPECT_EQ(read_epoch(few.matrix, few.options, &stats), read_epoch(few.matrix, alone));
    EXPECT_EQ(all.options.kept->rows(), rows);
    EXPECT_EQ(stats.bytes_read, 0U);
    EXPECT_TRUE(stats.all_kept);
    EXPECT_EQ(stats.kept_units, stats.units);
    EXPECT_LE(stats.peak_buffered_bytes, few.options.memory_budget);
    EXPECT_EQ(stats.spilled_bytes, 0U);
    packed += all.options.kept->packed_rows() != 0 ? 1 : 0;
    by_units += global ? 0 : 1;
  }
  EXPECT_GT(packed, 0U);
  EXPECT_GT(by_units, rounds * 2 / 5);
}

// Other genes than those that are kept, or too little memory beside those.
TEST(KeptEpochs, SayAllKeptOnlyIfNothingIsRead) {
  const uint64_t rounds = test_rounds(20);
  uint64_t dropped = 0, used = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case all = large_case(own, random);
    all.options.memory_budget = testing::kAmple;
    all.options.kept = std::make_shared<KeptRows>();
    read_epoch(all.matrix, all.options);
    const uint64_t before = all.options.kept->bytes();
    Case few = all;
    few.options.columns.emplace();
    for (int64_t column = 0; column < all.matrix->options().columns; column += 3) {
      few.options.columns->push_back(column);
    }
    few.options.memory_budget = random_budget(random, few);
    if (random() % 2 == 0) few.options.memory_budget = before + random() % before;
    LoaderStats stats;
    read_epoch(few.matrix, few.options, &stats);
    EXPECT_EQ(stats.all_kept, stats.bytes_read == 0) << "budget " << few.options.memory_budget;
    EXPECT_LE(all.options.kept->bytes(), few.options.memory_budget);
    if (stats.all_kept) {
      EXPECT_EQ(all.options.kept->bytes(), before);
    }
    used += stats.all_kept ? 1 : 0;
    dropped += stats.all_kept ? 0 : 1;
  }
  EXPECT_GT(used, rounds / 8);
  EXPECT_GT(dropped, rounds / 8);
}

// A loader of some rows keeps them wide, since they fit. All rows fit only bit-packed.
TEST(KeptEpochs, ArePackedAnewIfWideRowsLeaveNoRoom) {
  const uint64_t rounds = test_rounds(8);
  uint64_t wide = 0;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    Case all = large_case(own, random);
    all.options.memory_budget = budget_for_packed_rows(all) * 19 / 20;
    all.options.kept = std::make_shared<KeptRows>();
    LoaderStats stats;
    Case part = all;
    const auto rows = static_cast<int64_t>(all.matrix->options().rows);
    part.options.rows = RowSelection::range(0, rows / 2 + static_cast<int64_t>(random() % 1000));
    const bool more_memory = seed % 2 == 0;
    if (more_memory) part.options.rows = std::nullopt;
    if (more_memory) part.options.memory_budget = testing::kAmple;
    read_epoch(part.matrix, part.options);
    wide += all.options.kept->packed_rows() == 0 ? 1 : 0;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
      all.options.epoch = epoch;
      all.options.order = ScatterShuffle{};
      LoaderOptions alone = all.options;
      alone.kept = nullptr;
      EXPECT_EQ(read_epoch(all.matrix, all.options, &stats), read_epoch(all.matrix, alone));
      EXPECT_LE(stats.peak_buffered_bytes, all.options.memory_budget);
    }
    EXPECT_GE(all.options.kept->rows(), static_cast<uint64_t>(rows) * 9 / 10);
    LoaderOptions fresh = all.options;
    fresh.kept = std::make_shared<KeptRows>();
    LoaderStats of_fresh;
    for (fresh.epoch = 0; fresh.epoch < 3; ++fresh.epoch) {
      read_epoch(all.matrix, fresh, &of_fresh);
    }
    EXPECT_LE(stats.bytes_read, of_fresh.bytes_read + of_fresh.bytes_read / 8);
    EXPECT_LE(stats.spilled_bytes, of_fresh.spilled_bytes);
  }
  EXPECT_GT(wide, rounds / 2);
}

// Each of two parts fits wide alone. If both fit only bit-packed, neither drops the other for ever.
TEST(KeptEpochs, OfTwoPartsStayTogether) {
  uint64_t tried = 0, packed = 0, first = 0, last = 0;
  for (uint64_t seed = 0; (tried < 6 || packed < 2) && seed < 60; ++seed) {
    const TestSeed own(seed);
    std::mt19937_64 random(own);
    MemoryMatrixOptions shape;  // small counts of most genes, which bit-packing makes small
    shape.rows = 4000 + static_cast<int64_t>(random() % 8000);
    shape.columns = 250;
    shape.max_nnz = 200;
    shape.rare_values = 0;
    shape.seed = own;
    Case test{std::make_shared<MemoryMatrix>(shape), {}};
    test.options.batch_size = 1 + static_cast<uint32_t>(random() % 50);
    test.options.threads = 2;
    std::array<std::vector<int64_t>, 2> ids;
    for (int64_t row = 0; row < shape.rows; ++row) ids[random() % 5 == 0 ? 1 : 0].push_back(row);
    const auto kept = std::make_shared<KeptRows>();
    // Up to a quarter less than both need if they are wide.
    LoaderOptions both = test.options;
    both.kept = kept;
    both.memory_budget = budget_for_packed_rows(test);
    const uint64_t budget = both.memory_budget - random() % (both.memory_budget / 4);
    const bool fit_alone = std::all_of(ids.begin(), ids.end(), [&](const auto& part) {
      both.rows = RowSelection::from_sorted(part);
      both.memory_budget = budget;
      return budget_that_keeps_all(test.matrix, both) == budget;
    });
    if (!fit_alone) continue;  // in queues of this size
    ++tried;
    std::array<uint64_t, 4> read{};
    for (uint64_t epoch = 0; epoch < read.size(); ++epoch) {
      for (const auto& part : ids) {
        SCOPED_TRACE(::testing::Message() << "epoch " << epoch);
        LoaderOptions options = test.options;
        options.rows = RowSelection::from_sorted(part);
        options.epoch = epoch;
        options.memory_budget = budget;
        options.kept = kept;
        LoaderOptions alone = options;
        alone.kept = nullptr;
        LoaderStats stats;
        EXPECT_EQ(read_epoch(test.matrix, options, &stats), read_epoch(test.matrix, alone));
        EXPECT_LE(kept->bytes(), options.memory_budget);
        EXPECT_LE(stats.peak_buffered_bytes, options.memory_budget);
        read[epoch] += stats.bytes_read;
      }
    }
    EXPECT_EQ(kept->rows(), static_cast<uint64_t>(shape.rows)) << "budget " << budget;
    first += read.front();
    last += read.back();
    packed += kept->packed_rows() != 0 ? 1 : 0;
  }
  EXPECT_GE(tried, 6U);
  EXPECT_GE(packed, 2U);
  EXPECT_LT(last, first / 10 * 3);
  std::printf("%lu of %lu bytes are read again\n", last, first);
}

TEST(KeptEpochs, LoseNothingToAnError) {
  uint64_t fired = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TestSeed own(seed);
    Case test = testing::tiny_case(own);
    if (test.options.rows->empty()) continue;
    std::mt19937_64 random(own);
    MemoryMatrixOptions faulty = test.matrix->options();
    faulty.fault = std::array{Fault::kFetch, Fault::kTask, Fault::kPack, Fault::kNnz}[seed % 4];
    faulty.fault_after = static_cast<int>(random() % 40);
    test.matrix = std::make_shared<MemoryMatrix>(faulty);
    test.options.threads = 2;
    test.options.drop_last = false;  // so that every unit is visited
    auto kept = std::make_shared<KeptRows>();
    test.options.kept = kept;
    {
      const auto stream = make_stream(test.matrix, test.options);
      try {
        while (stream->next() != nullptr) {
        }
      } catch (const IoError&) {
        EXPECT_TRUE(test.matrix->fault_fired());
        ++fired;
      }
    }
    read_epoch(test.matrix, test.options);  // the fault occurs once
    test.options.epoch = 1;
    LoaderStats stats;
    read_epoch(test.matrix, test.options, &stats);
    EXPECT_EQ(stats.kept_units, stats.units);
    kept->clear();
    EXPECT_EQ(kept->bytes(), 0U) << "bytes of a unit that failed were not given back";
  }
  EXPECT_GT(fired, 10U);
}

TEST(KeptEpochs, RowsInUseOutliveWhatIsKept) {
  MemoryMatrixOptions shape;
  shape.rows = 3000;
  const auto matrix = std::make_shared<MemoryMatrix>(shape);
  LoaderOptions options;
  options.memory_budget = testing::kAmple;
  options.kept = std::make_shared<KeptRows>();
  const auto order = read_epoch(matrix, options);
  EXPECT_EQ(options.kept->rows(), 3000U);
  for (const bool one_by_one : {false, true}) {
    if (one_by_one) options.order = GlobalShuffle{};
    const auto stream = make_stream(matrix, options);
    std::multiset<int64_t> seen;
    for (auto batch = stream->next(); batch != nullptr; batch = stream->next()) {
      for (const int64_t joinid : batch->joinids()) {
        seen.insert(joinid);
        EXPECT_EQ(batch->csr().indptr.size(), batch->rows() + 1);
      }
      options.kept->clear();
    }
    EXPECT_EQ(seen, std::multiset<int64_t>(order.begin(), order.end()));
    read_epoch(matrix, options);
  }
}

TEST(KeptEpochs, AForkedChildReadsTheStore) {
  MemoryMatrixOptions shape;
  const auto matrix = std::make_shared<MemoryMatrix>(shape);
  LoaderOptions options;
  options.memory_budget = testing::kAmple;
  options.kept = std::make_shared<KeptRows>();
  read_epoch(matrix, options);
  ASSERT_EQ(options.kept->rows(), 1000U);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    LoaderStats stats;
    options.epoch = 1;
    const bool all = read_epoch(matrix, options, &stats).size() == 1000;
    const bool none_kept = options.kept->rows() == 0 && options.kept->bytes() == 0;
    std::_Exit(all && none_kept && stats.kept_units == 0 && stats.bytes_read != 0 &&
                       stats.spilled_bytes == 0
                   ? 0
                   : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::pipeline
