#include <gtest/gtest.h>
#include <penstock/join.h>

#include <algorithm>

#include "format/handle_access.h"
#include "format/joined/source.h"
#include "format/joined/testing/random_experiment.h"
#include "format/testing/unpacked.h"

// Joins of a stored experiment: with one in memory, and what identifies the content of a join.

namespace penstock::format {
namespace {

using namespace testing;

/// What identifies obs, var and X of a join.
std::vector<std::string> contents(std::vector<JoinExperiment> experiments,
                                  const JoinOptions& options = {}) {
  const auto joined = join_experiments(std::move(experiments), options);
  return {joined.obs().content(), joined.var("RNA").content(),
          HandleAccess::source(joined.x("RNA", "raw"))->content()};
}

std::vector<std::string> gene_names(const Experiment& experiment) {
  ReadOptions options;
  options.columns = {"var_id"};
  std::vector<std::string> names;
  for (const auto& name : values_of(experiment.var("RNA").read(options).columns[0])) {
    names.push_back(name.value());
  }
  return names;
}

TEST(StoredJoin, ContentTellsWhatIsJoinedAndHow) {
  const Unpacked stored("pbmc3k-soma");
  const auto cells = Experiment::open(stored.path());
  const auto before = contents({{cells, "a"}, {cells, "b"}});
  for (const std::string& content : before) EXPECT_FALSE(content.empty());
  EXPECT_EQ(contents({{Experiment::open(stored.path()), "a"}, {cells, "b"}}), before);
  EXPECT_NE(contents({{cells, "a"}, {cells, "c"}})[0], before[0]);
  for (const std::string& content : contents({{cells, "a"}})) {
    EXPECT_EQ(std::count(before.begin(), before.end(), content), 0);
  }
  JoinOptions options;
  options.genes = JoinGenes::kListed;
  options.gene_names = gene_names(cells);
  EXPECT_EQ(contents({{cells, "a"}, {cells, "b"}}, options), before);
  std::reverse(options.gene_names.begin(), options.gene_names.end());
  const auto reversed = contents({{cells, "a"}, {cells, "b"}}, options);
  EXPECT_EQ(reversed[0], before[0]);
  EXPECT_NE(reversed[1], before[1]);
  EXPECT_NE(reversed[2], before[2]);
}

TEST(StoredJoin, WithAnExperimentInMemory) {
  const Unpacked stored("pbmc3k-soma");
  const auto cells = Experiment::open(stored.path());
  const auto genes = gene_names(cells);
  MemoryExperiment two;
  two.obs_count = 2;
  two.obs = {number_column("ours", DataType::kInt8, {5, -1})};
  const MatrixInMemory x = CsrInMemory{array_of(DataType::kFloat32, std::vector<float>{7}),
                                       array_of(DataType::kInt32, std::vector<int32_t>{1}),
                                       array_of(DataType::kInt32, std::vector<int32_t>{0, 0, 1}),
                                       2,
                                       2,
                                       {}};
  two.measurements.push_back({"RNA", {text_column("var_id", {genes[9], genes[3]})}, 2, {{"X", x}}});
  const auto joined =
      join_experiments({{cells, "stored"}, {open_in_memory(std::move(two)), "new"}});
  EXPECT_EQ(gene_names(joined), (std::vector<std::string>{genes[3], genes[9]}));
  EXPECT_EQ(joined.obs().row_count(), 2640U);
  EXPECT_EQ(joined.obs().select("ours == 5").to_vector(), (std::vector<int64_t>{kRowsPerWord}));
  EXPECT_EQ(joined.obs().select("source == 'stored'"), RowSelection::range(0, 2638));
  EXPECT_EQ(joined.obs().content(), "");  // memory has no known content
  const Matrix matrix = joined.x("RNA", "joined");
  EXPECT_EQ(matrix.shape(), (std::pair<int64_t, int64_t>(kRowsPerWord + 2, 2)));
}

}  // namespace
}  // namespace penstock::format
