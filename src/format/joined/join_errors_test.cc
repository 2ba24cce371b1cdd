#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/join.h>
#include <penstock/pack.h>

#include <filesystem>

#include "format/joined/testing/random_experiment.h"

// What cannot be joined, and what the errors say.

namespace penstock {
namespace {

using namespace format::testing;

/// An experiment of two cells with the columns `obs`, and of one measurement with the layers X.
Experiment experiment_of(std::vector<Column> obs, std::vector<Column> var,
                         const std::string& measurement = "RNA", const std::string& layer = "X") {
  MemoryExperiment cells;
  cells.uri = "memory";
  cells.obs = std::move(obs);
  cells.obs_count = 2;
  const uint64_t genes = var[0].size();
  CsrInMemory matrix{array_of(DataType::kFloat32, std::vector<float>{}),
                     array_of(DataType::kInt32, std::vector<int32_t>{}),
                     array_of(DataType::kInt32, std::vector<int32_t>(3)),
                     2,
                     genes,
                     {}};
  cells.measurements.push_back({measurement, std::move(var), genes, {{layer, std::move(matrix)}}});
  return open_in_memory(std::move(cells));
}

Experiment of_genes(const Values& genes) {
  return experiment_of({}, {text_column("var_id", genes)});
}

template <typename Expected, typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error of the expected class";
  return {};
}

template <typename Expected>
std::string message_of_join(std::vector<JoinExperiment> experiments,
                            const JoinOptions& options = {}) {
  return message_of<Expected>([&] { join_experiments(experiments, options); });
}

#define EXPECT_SAYS(message, words) EXPECT_NE((message).find(words), std::string::npos) << (message)

TEST(JoinErrors, Names) {
  const Experiment one = of_genes({"a"});
  EXPECT_SAYS(message_of_join<InvalidArgument>({}), "a join needs one experiment or more");
  EXPECT_SAYS(message_of_join<InvalidArgument>({{one, ""}}), "there is none for memory");
  EXPECT_SAYS(message_of_join<InvalidArgument>({{one, "x"}, {one, "x"}}), "unique, got 'x' twice");
  const auto joined = join_experiments({{one, "x"}});
  EXPECT_SAYS(message_of_join<InvalidArgument>({{one, "y"}, {joined, "z"}}),
              "'z' is a join itself: give all experiments to one join");
  const auto sourced = experiment_of({number_column("source", DataType::kInt8, {1, 2})},
                                     {text_column("var_id", {"a"})});
  EXPECT_SAYS(message_of_join<InvalidArgument>({{one, "x"}, {sourced, "y"}}),
              "obs of the experiment 'y' has a column 'source' already");
  JoinOptions options;
  options.source_column = "from";
  EXPECT_EQ(join_experiments({{one, "x"}, {sourced, "y"}}, options).obs().row_count(), 4U);
  options.source_column = "";
  EXPECT_SAYS(message_of_join<InvalidArgument>({{one, "x"}}, options), "source_column");
}

TEST(JoinErrors, Genes) {
  const JoinExperiment one{of_genes({"a", "b"}), "one"};
  const JoinExperiment two{of_genes({"b", "c"}), "two"};
  const JoinExperiment three{of_genes({"a", "c"}), "three"};
  const JoinExperiment other{of_genes({"x", "y", std::nullopt}), "other"};
  for (const JoinGenes genes : {JoinGenes::kInner, JoinGenes::kOuter}) {
    JoinOptions options;
    options.genes = genes;
    EXPECT_SAYS(message_of_join<InvalidArgument>({one, two, other}, options),
                "the experiment 'other' has no gene in common with the others by var column "
                "'var_id': it has 'x', 'y', 'one' has 'a', 'b'");
  }
  EXPECT_SAYS(message_of_join<InvalidArgument>({one, two, three}),
              "no gene is in all 3 experiments");
  EXPECT_SAYS(message_of_join<InvalidArgument>({one, {of_genes({"a", "c", "c"}), "twice"}}),
              "'twice' names a gene twice, 'c'");
  JoinOptions listed;
  listed.gene_names = {"c", "a", "c"};
  EXPECT_SAYS(message_of_join<InvalidArgument>({one, two}, listed), "JoinGenes::kListed");
  listed.genes = JoinGenes::kListed;
  EXPECT_SAYS(message_of_join<InvalidArgument>({one, two}, listed),
              "gene_names must be unique, got 'c'");
  listed.gene_names = {"c", "a"};
  EXPECT_SAYS(message_of_join<InvalidArgument>({one, other}, listed),
              "the experiment 'other' has none of the 2 gene_names");
  listed.gene_names.clear();
  EXPECT_SAYS(message_of_join<InvalidArgument>({one}, listed), "has none of the 0 gene_names");
}

TEST(JoinErrors, NameColumns) {
  const auto var = [](const std::string& column) {
    return experiment_of(
        {}, {text_column(column, {"a"}), number_column("length", DataType::kInt8, {1})});
  };
  EXPECT_SAYS(message_of_join<NotFound>({{var("gene_id"), "one"}, {var("symbol"), "two"}}),
              "there are one: soma_joinid, gene_id, length; two: soma_joinid, symbol, length");
  JoinOptions options;
  options.var_column = "gene_id";
  EXPECT_SAYS(message_of_join<NotFound>({{var("gene_id"), "one"}, {var("symbol"), "two"}}, options),
              "var_column must be in var of each experiment, got 'gene_id'");
  options.var_column = "length";
  EXPECT_SAYS(message_of_join<InvalidArgument>({{var("gene_id"), "one"}}, options),
              "'length' of the experiment 'one' must hold gene names (strings), but it holds int8");
}

TEST(JoinErrors, MeasurementsAndLayers) {
  const auto var = std::vector<Column>{text_column("var_id", {"a", "b"})};
  const Experiment rna = experiment_of({}, var), protein = experiment_of({}, var, "ADT", "raw");
  EXPECT_SAYS(message_of_join<NotFound>({{rna, "x"}, {protein, "y"}}), "no measurement 'RNA'");
  EXPECT_SAYS(message_of_join<NotFound>({{rna, "x", "RNA", "raw"}}), "no layer 'raw'");
  const auto joined = join_experiments({{rna, "x"}, {protein, "y", "ADT"}});
  EXPECT_EQ(joined.measurements(), (std::vector<std::string>{"joined"}));
  EXPECT_EQ(joined.default_layer("joined"), "joined");
  EXPECT_EQ(joined.x("joined", "joined").layer(), "joined");
  EXPECT_EQ(joined.uri(), "memory + memory");
  EXPECT_TRUE(joined.metadata().empty());
  EXPECT_SAYS(message_of<NotFound>([&] { joined.var("RNA"); }), "the join has 'joined'");
  EXPECT_SAYS(message_of<NotFound>([&] { joined.x("joined", "X"); }), "no layer 'X'; the join has");
  EXPECT_SAYS(message_of<NotFound>([&] { joined.layers("RNA"); }), "no measurement 'RNA'");
}

TEST(JoinErrors, Columns) {
  const auto with = [](Column column) {
    return experiment_of({std::move(column)}, {text_column("var_id", {"a"})});
  };
  const auto joined = join_experiments({{with(number_column("c", DataType::kInt16, {1, 2})), "x"},
                                        {with(text_column("d", {"u", "v"})), "y"},
                                        {with(text_column("c", {"u", "v"})), "z"}});
  const DataFrame obs = joined.obs();
  ReadOptions options;
  options.columns = {"c"};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { obs.read(options); }),
              "column 'c' holds int16 in 'x', string in 'z', which make no column together");
  options.columns = {"nothing"};
  EXPECT_SAYS(message_of<NotFound>([&] { obs.read(options); }),
              "no column 'nothing'; choose from soma_joinid, c, d, source");
  options.columns = {"d", "source", "d"};
  EXPECT_EQ(values_of(obs.read(options).columns[2]),
            (Values{std::nullopt, std::nullopt, "u", "v", std::nullopt, std::nullopt}));
  EXPECT_SAYS(message_of<NotFound>([&] { obs.select("nothing == 1"); }), "nothing");
}

TEST(JoinErrors, AJoinIsNotPacked) {
  const auto joined = join_experiments({{of_genes({"a"}), "x"}});
  const auto place = std::filesystem::temp_directory_path() / "penstock_join_never_packed";
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Packer(joined, place.string(), {}); }),
              "pack each experiment of a join, then join the packs");
  EXPECT_FALSE(std::filesystem::exists(place));
}

}  // namespace
}  // namespace penstock
