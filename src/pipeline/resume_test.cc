#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/join.h>
#include <penstock/resume.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_data.h"
#include "base/testing/test_seed.h"
#include "pipeline/testing/memory_experiment.h"
#include "pipeline/testing/random_epochs.h"

// Epochs that are left, saved as JSON and resumed in C++: in the same order, and in others.

namespace penstock::pipeline {
namespace {

using testing::as_matrix;
using testing::Case;
using testing::least_budget;
using testing::random_case;

using Ids = std::vector<int64_t>;

ResumeState through_json(const ResumeState& state) {
  return ResumeState::from_json(state.to_json());
}

void append(Ids& ids, const Batch& batch) {
  for (const int64_t id : batch.joinids()) ids.push_back(id);
}

/// All ranks of a job in lockstep, each with its workers in turns, as a DataLoader takes batches.
class Job {
 public:
  Job(const Matrix& matrix, const LoaderOptions& options, const ResumeState& state) {
    LoaderOptions own = options;
    for (own.rank = 0; own.rank < own.world_size; ++own.rank) {
      Rank& rank = ranks_.emplace_back(Rank{EpochRun(state, own), {}});
      const LoaderOptions left = what_is_left(matrix, own, state.epoch, rank.run.earlier());
      LoaderOptions alone = left;
      alone.epoch = state.epoch;
      uint32_t active_workers = 1;
      for (uint32_t worker = 0; worker < active_workers; ++worker) {
        LoaderOptions of_worker = alone;
        of_worker.worker = worker;
        if (worker == 0) {
          const Loader first(matrix, of_worker);
          active_workers = first.active_workers();
          LoaderOptions of_rank = alone;
          of_rank.num_workers = 1;
          const uint64_t size = Loader(matrix, of_rank).size();
          rank.run.set_plan({first.fingerprint(), active_workers, size}, "memory");
        }
        // Those that the rank's first batches were taken from, in turns.
        const uint64_t taken = rank.run.batches();
        of_worker.first_batch =
            taken <= worker ? 0 : (taken - worker + active_workers - 1) / active_workers;
        rank.workers.push_back(std::make_unique<Loader>(matrix, of_worker));
      }
    }
  }

  /// One batch of each rank; false at the end.
  bool step(Ids& ids) {
    bool more = false;
    for (Rank& rank : ranks_) {
      const auto batch = rank.workers[rank.run.batches() % rank.workers.size()]->next();
      if (batch == nullptr) continue;
      more = true;
      rank.run.count_batch();
      append(ids, *batch);
    }
    for (const Rank& rank : ranks_) EXPECT_EQ(rank.run.batches(), ranks_[0].run.batches());
    return more;
  }

  ResumeState state() const {
    for (const Rank& rank : ranks_) EXPECT_EQ(rank.run.state(), ranks_[0].run.state());
    return ranks_[0].run.state();
  }
  bool finished() const { return ranks_[0].run.finished(); }

 private:
  struct Rank {
    EpochRun run;
    std::vector<std::unique_ptr<Loader>> workers;
  };
  std::vector<Rank> ranks_;
};

/// Another way to read the epoch: everything that a state allows to change.
void change(LoaderOptions& options, std::mt19937_64& random) {
  options.world_size = 1 + static_cast<uint32_t>(random() % 3);
  options.num_workers = 1 + static_cast<uint32_t>(random() % 3);
  options.batch_size = 1 + static_cast<uint32_t>(random() % 60);
  options.seed = random();
  options.layout = random() % 2 == 0 ? BatchLayout::kCsr : BatchLayout::kDense;
  switch (random() % 4) {
    case 0:
      options.order = StoredOrder{};
      break;
    case 1:
      options.order = GlobalShuffle{};
      break;
    case 2:
      options.order = ChunkShuffle{1 + static_cast<uint32_t>(random() % 9),
                                   1 + static_cast<uint32_t>(random() % 9)};
      break;
    default:
      options.order = ScatterShuffle{};
  }
}

ResumeState start_of(const Matrix& matrix, const LoaderOptions& options) {
  return {options.epoch, SelectionFingerprint::of(matrix, options), {}, {}, {}};
}

TEST(Resume, EveryRowComesOnceOnOtherRanksInOtherOrders) {
  int resumed = 0, earlier = 0;
  for (uint64_t number = 1; number <= 250; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = random_case(seed * 17);
    const Matrix matrix = as_matrix(test.matrix);
    LoaderOptions options = test.options;
    options.drop_last = false;
    options.uneven = UnevenRows::kExact;
    options.memory_budget = testing::kAmple;
    if (options.rows->size() < 20) continue;
    Ids ids;
    ResumeState state = start_of(matrix, options);
    bool done = false;
    for (uint64_t jobs = 1 + random() % 3; jobs > 0 && !done; --jobs) {
      change(options, random);
      Job job(matrix, options, state);
      const uint64_t steps = random() % 4;
      for (uint64_t i = 0; i < steps && !job.finished(); ++i) job.step(ids);
      done = job.finished();
      if (done) break;
      state = through_json(job.state());
      ++resumed;
    }
    if (!done) {
      // Half of them in the order of the last segment.
      if (random() % 2 == 0) change(options, random);
      Job last(matrix, options, state);
      earlier += state.segments.size() > 1 ? 1 : 0;
      while (last.step(ids)) {
      }
    }
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids, options.rows->to_vector());
  }
  EXPECT_GT(resumed, 200);
  EXPECT_GT(earlier, 50);
}

TEST(Resume, TheSameSettingsGiveTheBatchesThatWereLeft) {
  for (uint64_t number = 1; number <= 150; ++number) {
    const TestSeed seed(number);
    std::mt19937_64 random(seed);
    Case test = random_case(seed * 23);
    LoaderOptions options = test.options;
    options.world_size = 1 + static_cast<uint32_t>(random() % 3);
    options.rank = static_cast<uint32_t>(random() % options.world_size);
    options.num_workers = 1 + static_cast<uint32_t>(random() % 2);
    options.worker = static_cast<uint32_t>(random() % options.num_workers);
    options.uneven = static_cast<UnevenRows>(random() % 3);
    const Matrix matrix = as_matrix(test.matrix);
    std::vector<Ids> whole;
    std::vector<std::string> states;
    ResumableLoader loader(matrix, options);
    const std::string start = loader.state().to_json();
    while (const auto batch = loader.next()) {
      append(whole.emplace_back(), *batch);
      states.push_back(loader.state().to_json());
    }
    const size_t taken = whole.empty() ? 0 : random() % (whole.size() + 1);
    const auto state = ResumeState::from_json(taken == 0 ? start : states[taken - 1]);
    if (taken == whole.size()) {
      ASSERT_EQ(state.epoch, options.epoch + 1);
      ASSERT_TRUE(state.segments.empty());
      continue;
    }
    ASSERT_EQ(state.epoch, options.epoch);
    options.epoch = 77;  // the state says which
    ResumableLoader rest(matrix, options, state);
    ASSERT_EQ(rest.epoch(), state.epoch);
    for (size_t i = taken; i < whole.size(); ++i) {
      const auto batch = rest.next();
      ASSERT_NE(batch, nullptr);
      Ids ids;
      append(ids, *batch);
      ASSERT_EQ(ids, whole[i]) << "batch " << i << " of " << whole.size();
      ASSERT_EQ(rest.state().to_json(), states[i]);
    }
    ASSERT_EQ(rest.next(), nullptr);
  }
}

TEST(Resume, DrawsThatAreLeftAreDrawn) {
  for (const bool replacement : {false, true}) {
    for (uint64_t number = 1; number <= 40; ++number) {
      const TestSeed seed(number);
      std::mt19937_64 random(seed);
      testing::MemoryMatrixOptions shape;
      shape.rows = 300;
      shape.max_unit_rows = 40;
      const auto source = std::make_shared<testing::MemoryMatrix>(shape);
      const Matrix matrix = as_matrix(source);
      LoaderOptions options;
      options.rows = RowSelection::range(0, shape.rows);
      options.memory_budget = testing::kAmple;
      options.uneven = UnevenRows::kExact;
      std::vector<double> weights(300);
      for (double& weight : weights) weight = static_cast<double>(random() % 4);
      options.order = RowSampling{RowWeights::from_values(weights), 150, replacement};
      options.batch_size = 8;
      Ids ids;
      ResumeState state = start_of(matrix, options);
      for (int job = 0; job < 3; ++job) {
        options.world_size = 1 + static_cast<uint32_t>(random() % 3);
        options.batch_size = 4 + static_cast<uint32_t>(random() % 8);
        Job some(matrix, options, state);
        for (uint64_t i = random() % 3; i > 0; --i) some.step(ids);
        state = through_json(some.state());
      }
      Job last(matrix, options, state);
      while (last.step(ids)) {
      }
      ASSERT_EQ(ids.size(), 150U);
      std::map<int64_t, int> counts;
      for (const int64_t id : ids) {
        ASSERT_GT(weights.at(static_cast<size_t>(id)), 0);
        ++counts[id];
      }
      if (!replacement) {
        ASSERT_EQ(counts.size(), ids.size());
      }
      std::get<RowSampling>(options.order).samples = 151;
      ASSERT_THROW(Job(matrix, options, state), InvalidArgument);
    }
  }
}

TEST(Resume, TotalsStayWithTheirRows) {
  testing::MemoryMatrixOptions shape;
  shape.rows = 200;
  shape.max_unit_rows = 30;
  const auto source = std::make_shared<testing::MemoryMatrix>(shape);
  const Matrix matrix = as_matrix(source);
  LoaderOptions options;
  options.rows = RowSelection::range(0, shape.rows) - RowSelection::range(20, 61);
  options.memory_budget = testing::kAmple;
  options.dtype = DataType::kFloat64;
  options.batch_size = 16;
  auto totals = std::make_shared<std::vector<double>>();
  for (const int64_t id : options.rows->to_vector()) {
    totals->push_back(static_cast<double>(id) + 1);
  }
  auto plan = std::make_shared<TransformPlan>();
  TransformStep step;
  step.kind = TransformStep::Kind::kNormalizeTotal;
  step.target = 1;
  step.row_totals = totals;
  plan->steps.push_back(step);
  options.transforms = plan;
  ResumableLoader first(matrix, options);
  for (int i = 0; i < 3; ++i) first.next();
  const ResumeState state = through_json(first.state());
  options.batch_size = 10;
  ResumableLoader rest(matrix, options, state);
  uint64_t seen = 0, values_seen = 0;
  while (const auto batch = rest.next()) {
    const auto csr = batch->csr();
    const auto* values = reinterpret_cast<const double*>(csr.data);
    for (uint32_t i = 0; i < batch->rows(); ++i, ++seen) {
      const int64_t id = batch->joinids()[i];
      double sum = 0, expected = 0;
      for (int32_t k = csr.indptr[i]; k < csr.indptr[i + 1]; ++k) sum += values[k];
      for (const float value : source->row(id).values) expected += double{value};
      ASSERT_NEAR(sum, expected / static_cast<double>(id + 1), 1e-9);
      values_seen += expected != 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(seen, options.rows->size() - 48);
  EXPECT_GT(values_seen, 50U);
}

TEST(Resume, AStateOfOtherDataIsRefused) {
  testing::MemoryMatrixOptions shape;
  shape.rows = 200;
  shape.max_unit_rows = 30;
  const auto source = std::make_shared<testing::MemoryMatrix>(shape);
  const Matrix matrix = as_matrix(source);
  LoaderOptions options;
  options.rows = RowSelection::range(0, shape.rows);
  options.memory_budget = testing::kAmple;
  options.batch_size = 16;
  ResumableLoader loader(matrix, options);
  loader.next();
  const ResumeState state = loader.state();
  const auto reason = [&](const Matrix& other, const LoaderOptions& changed,
                          const ResumeState& saved) {
    try {
      const ResumableLoader resumed(other, changed, saved);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(reason(matrix, options, state), "");
  LoaderOptions changed = options;
  changed.rows = RowSelection::range(0, 199);
  changed.columns = {{1, 2}};
  const std::string selection = "the state is of another selection than this loader's: ";
  EXPECT_EQ(reason(matrix, changed, state), selection + "other cells and other genes");
  changed = options;
  changed.transforms = std::make_shared<TransformPlan>(TransformPlan{{TransformStep{}}, {}});
  EXPECT_EQ(reason(matrix, changed, state), selection + "other transforms");
  const Matrix renamed = HandleAccess::named(matrix, "RNA", "raw");
  EXPECT_EQ(reason(renamed, options, state), selection + "other layer");
  shape.max_unit_rows = 20;
  const Matrix written = as_matrix(std::make_shared<testing::MemoryMatrix>(shape));
  EXPECT_NE(reason(written, options, state).find("does not fit what is stored"), std::string::npos);
  changed = options;
  changed.batch_size = 7;
  EXPECT_NE(reason(written, changed, state).find("does not fit what is stored"), std::string::npos);
  ResumeState of_worker = state;
  of_worker.worker = of_worker.as_worker = 0;
  EXPECT_NE(reason(matrix, changed, of_worker).find("the arguments that it was saved with"),
            std::string::npos);
  changed.num_workers = 2;
  EXPECT_NE(reason(matrix, changed, of_worker).find("keep num_workers"), std::string::npos);
}

TEST(Resume, AStateOfAnotherJoinIsRefused) {
  const auto source = std::make_shared<testing::MemoryMatrix>(testing::MemoryMatrixOptions{});
  const auto joined = [&](const char* layer, uint32_t column) {
    JoinPart part{HandleAccess::named(as_matrix(source), "RNA", layer), 0, 1000, {3}, {column}};
    return SelectionFingerprint::of(join_matrices({part}, 2), {});
  };
  EXPECT_EQ(joined("raw", 1).differences(joined("raw", 1)), "");
  const char* other = "other joined experiments or genes matched";
  EXPECT_EQ(joined("raw", 1).differences(joined("data", 1)), other);
  EXPECT_EQ(joined("raw", 1).differences(joined("raw", 0)), other);
}

// States that the Python package saved have the fingerprints that are computed here.
TEST(Resume, FingerprintsOfASelectionArePythons) {
  std::ifstream file(test_data("saved_states.json"));
  const nlohmann::json records = nlohmann::json::parse(file);
  ASSERT_EQ(records[0]["kind"], "default");
  testing::MemoryMatrixOptions stored;
  stored.rows = 8000;
  stored.columns = 200;
  const Matrix written =
      HandleAccess::named(as_matrix(std::make_shared<testing::MemoryMatrix>(stored)), "RNA", "raw");
  const ResumeState saved = ResumeState::from_json(records[0]["state"].dump());
  EXPECT_EQ(saved.selection.differences(SelectionFingerprint::of(written, {})), "");
  const Matrix matrix =
      as_matrix(std::make_shared<testing::MemoryMatrix>(testing::MemoryMatrixOptions{}));
  const auto layer = [&](const char* measurement, const char* name) {
    return SelectionFingerprint::of(HandleAccess::named(matrix, measurement, name), {}).layer;
  };
  EXPECT_NE(layer("RNA", "raw"), layer("RNA", "data"));
  EXPECT_NE(layer("RNA", "raw"), layer("RNAr", "aw"));
}

}  // namespace
}  // namespace penstock::pipeline
