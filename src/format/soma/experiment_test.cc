#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/experiment.h>

#include <thread>

#include "format/handle_access.h"
#include "format/matrix_source.h"
#include "format/testing/unpacked.h"

namespace penstock {
namespace {

using format::testing::Unpacked;

ReadOptions wanted(std::vector<std::string> columns, std::string value_filter = {}) {
  ReadOptions options;
  options.columns = std::move(columns);
  options.value_filter = std::move(value_filter);
  return options;
}

TEST(Experiment, RealCells) {
  const Unpacked stored("pbmc3k-soma");
  const auto experiment = Experiment::open(stored.path());
  EXPECT_EQ(experiment.measurements(), (std::vector<std::string>{"RNA"}));
  EXPECT_EQ(experiment.layers("RNA"), (std::vector<std::string>{"raw"}));
  EXPECT_EQ(experiment.metadata().at("soma_object_type"), "SOMAExperiment");
  const DataFrame obs = experiment.obs();
  EXPECT_EQ(obs.row_count(), 2638U);
  EXPECT_EQ(obs.select("").size(), 2638U);
  const Matrix x = experiment.x("RNA", "raw");
  EXPECT_EQ(x.shape(), (std::pair<int64_t, int64_t>(2638, 13714)));
  EXPECT_EQ(x.value_type(), DataType::kFloat32);
  EXPECT_GT(x.stored_bytes(), 1'000'000U);
  EXPECT_EQ(HandleAccess::source(x)->info().row_domain_end, 2638);

  // Every class by itself, and together all rows.
  const Table types = obs.read(wanted({"cell_type"}));
  const auto& names = types.at("cell_type").categories->strings;
  EXPECT_EQ(names.size(), 8U);
  RowSelection all;
  for (const std::string& name : names) {
    const std::string filter = "cell_type == '" + name + "'";
    const RowSelection rows = obs.select(filter);
    EXPECT_FALSE(rows.empty()) << name;
    EXPECT_TRUE((all & rows).empty());
    all = all | rows;
    const Table some = obs.read(wanted({"soma_joinid", "cell_type"}, filter));
    EXPECT_EQ(some.row_count, rows.size());
    for (uint64_t i = 0; i < some.row_count; ++i) {
      EXPECT_TRUE(rows.contains(some.at("soma_joinid").values<int64_t>()[i]));
      EXPECT_EQ(names[static_cast<size_t>(some.at("cell_type").code_at(i))], name);
    }
  }
  EXPECT_EQ(all, obs.select(""));
}

TEST(Experiment, EveryFormatFrom18) {
  struct Archive {
    const char* name;
    uint64_t cells;
    bool categories;  // enumerations came with format 20
  };
  for (const auto& [name, cells, categories] : std::initializer_list<Archive>{
           {"soma-1.2.5-small", 300, false},
           {"soma-1.4.4-small", 300, false},
           {"soma-1.5.3-small", 300, true},
           {"soma-1.7.3-small", 300, true},
           {"soma-1.15.7-small", 300, true},
           {"soma-2.3.0-small", 263, true},
           {"soma-1.2.5-upgraded", 300, false},
       }) {
    SCOPED_TRACE(name);
    const Unpacked stored(name);
    const auto experiment = Experiment::open(stored.path());
    const Table obs = experiment.obs().read();
    EXPECT_EQ(obs.row_count, cells);
    EXPECT_EQ(obs.at("cell_type").categories != nullptr, categories);
    EXPECT_EQ(experiment.var("RNA").read().row_count, 400U);
    const Matrix x = experiment.x("RNA", "raw");
    EXPECT_EQ(x.shape(), (std::pair<int64_t, int64_t>(300, 400)));
    EXPECT_EQ(HandleAccess::source(x)->info().row_domain_end, 300);
  }
}

TEST(Experiment, ManyThreadsShareOne) {
  const Unpacked stored("soma-1.15.7-small");
  const auto experiment = Experiment::open(stored.path());
  std::vector<std::thread> threads;
  std::vector<uint64_t> rows(8);
  for (size_t i = 0; i < rows.size(); ++i) {
    threads.emplace_back([&, i] {
      const Table table = experiment.obs().read();
      experiment.var("RNA").columns();
      HandleAccess::source(experiment.x("RNA", "raw"));
      rows[i] = table.row_count;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t count : rows) EXPECT_EQ(count, 300U);
}

TEST(Experiment, SaysWhatIsMissing) {
  const Unpacked stored("pbmc-small");
  const auto message = [](auto&& body) {
    try {
      body();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto experiment = Experiment::open(stored.path());
  EXPECT_NE(message([&] { experiment.x("RNA", "raw"); }).find("counts, data, scale_data"),
            std::string::npos);
  EXPECT_NE(message([&] { experiment.var("protein"); }).find("RNA"), std::string::npos);
  EXPECT_NE(message([&] { Experiment::open(stored.path() + "/obs"); }).find("SOMADataFrame"),
            std::string::npos);
  EXPECT_THROW(Experiment::open(stored.path() + "/nothing"), NotFound);
  EXPECT_THROW(Experiment::open("gs://bucket/experiment"), Unsupported);
  EXPECT_THROW(experiment.obs().read(wanted({"nothing"})), NotFound);
  EXPECT_THROW(experiment.obs().select("nothing == 1"), NotFound);
  EXPECT_THROW(experiment.obs().select("soma_joinid = 1"), InvalidArgument);
}

}  // namespace
}  // namespace penstock
