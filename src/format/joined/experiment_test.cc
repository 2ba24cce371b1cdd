#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/join.h>

#include <functional>
#include <numeric>

#include "base/testing/test_seed.h"
#include "format/handle_access.h"
#include "format/joined/source.h"
#include "format/joined/testing/random_experiment.h"
#include "kernel/unpack_row.h"

// Joins of random experiments, compared with a join of their plain values.

namespace penstock::format {
namespace {

using namespace testing;

/// Several experiments, and the join of their plain values.
struct Join {
  std::vector<RandomExperiment> parts;
  JoinOptions options;
  std::vector<std::string> genes;                ///< expected
  std::vector<std::pair<size_t, size_t>> cells;  ///< expected: part, row
  std::vector<int64_t> ids;                      ///< of the cells

  Experiment joined() const {
    std::vector<JoinExperiment> experiments;
    for (size_t i = 0; i < parts.size(); ++i) {
      experiments.push_back({*parts[i].experiment, "e" + std::to_string(i)});
    }
    return join_experiments(experiments, options);
  }

  std::optional<std::string> obs_value(size_t cell, const std::string& name) const {
    const auto [part, row] = cells[cell];
    if (name == "source") return "e" + std::to_string(part);
    if (name == "soma_joinid") return std::to_string(static_cast<double>(row));
    const auto found = parts[part].obs.find(name);
    return found == parts[part].obs.end() ? std::nullopt : found->second[row];
  }

  /// Row of a gene in var of a part.
  std::optional<size_t> gene_row(size_t part, const std::string& gene) const {
    const auto& genes_of_part = parts[part].genes;
    const auto found = std::find(genes_of_part.begin(), genes_of_part.end(), gene);
    if (found == genes_of_part.end()) return std::nullopt;
    return static_cast<size_t>(found - genes_of_part.begin());
  }

  std::optional<std::string> var_value(size_t gene, const std::string& name) const {
    if (name == "var_id") return genes[gene];
    if (name == "soma_joinid") return std::to_string(static_cast<double>(gene));
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto row = gene_row(part, genes[gene]);
      const auto found = parts[part].var.find(name);
      if (row && found != parts[part].var.end()) return found->second[*row];
    }
    return std::nullopt;
  }
};

std::vector<std::string> expected_genes(const Join& join, Random& random) {
  std::vector<std::string> any, all;
  for (const RandomExperiment& part : join.parts) {
    for (const auto& gene : part.genes) {
      if (!gene || std::find(any.begin(), any.end(), *gene) != any.end()) continue;
      any.push_back(*gene);
      bool everywhere = true;
      for (size_t i = 0; i < join.parts.size(); ++i)
        everywhere &= join.gene_row(i, *gene).has_value();
      if (everywhere) all.push_back(*gene);
    }
  }
  if (join.options.genes == JoinGenes::kListed) {
    auto listed = any;
    listed.emplace_back("nowhere");
    std::shuffle(listed.begin(), listed.end(), random);
    while (listed.size() > 4 && listed.back() != "g0") listed.pop_back();
    return listed;
  }
  return join.options.genes == JoinGenes::kInner ? all : any;
}

Join random_join(Random& random) {
  Join join;
  const size_t count = 1 + random() % 4;
  const size_t full = random() % count;
  for (size_t i = 0; i < count; ++i) {
    join.parts.push_back(random_experiment(random, i == full));
    for (size_t row = 0; row < join.parts[i].obs_count; ++row) {
      join.cells.emplace_back(i, row);
      join.ids.push_back(static_cast<int64_t>(i) * kRowsPerWord + static_cast<int64_t>(row));
    }
  }
  join.options.genes = static_cast<JoinGenes>(random() % 3);
  join.genes = expected_genes(join, random);
  if (join.options.genes == JoinGenes::kListed) join.options.gene_names = join.genes;
  return join;
}

using Cell = std::function<std::optional<std::string>(const std::string& column)>;
struct Filter {
  std::string text;
  std::function<bool(const Cell&)> keeps;
};

double number(const std::optional<std::string>& value) { return std::stod(value.value_or("nan")); }

const std::vector<Filter>& filters() {
  static const std::vector<Filter> all = {
      {"n > 4", [](const Cell& cell) { return number(cell("n")) > 4; }},
      {"kind in ['a', 'c']",
       [](const Cell& cell) { return cell("kind") == "a" || cell("kind") == "c"; }},
      {"kind == None", [](const Cell& cell) { return !cell("kind"); }},
      {"text == 't1' or level != 2",
       [](const Cell& cell) {
         return cell("text") == "t1" || (cell("level") && number(cell("level")) != 2);
       }},
      {"flag == True and n <= 7",
       [](const Cell& cell) { return number(cell("flag")) == 1 && number(cell("n")) <= 7; }},
  };
  return all;
}

const std::vector<Filter>& source_filters() {
  static const std::vector<Filter> all = {
      {"source == 'e1'", [](const Cell& cell) { return cell("source") == "e1"; }},
      {"source != 'e0' or n < 3",
       [](const Cell& cell) { return cell("source") != "e0" || number(cell("n")) < 3; }},
      {"source in ['e0', 'e2'] and kind == 'b'",
       [](const Cell& cell) {
         return cell("source") != "e1" && cell("source") != "e3" && cell("kind") == "b";
       }},
  };
  return all;
}

/// A random choice of the columns of a table.
std::vector<std::string> random_names(Random& random, const DataFrame& table) {
  std::vector<std::string> names;
  for (const ColumnInfo& info : table.columns()) {
    if (random() % 2 == 0) names.push_back(info.name);
  }
  std::shuffle(names.begin(), names.end(), random);
  return names;
}

/// Compares a read with rows of the expected table.
void expect_read(
    const DataFrame& table, const ReadOptions& options, size_t rows,
    const std::function<std::optional<std::string>(size_t, const std::string&)>& value) {
  const Table read = table.read(options);
  ASSERT_EQ(read.row_count, rows);
  std::vector<std::string> names = options.columns;
  for (size_t i = 0; options.columns.empty() && i < table.columns().size(); ++i) {
    names.push_back(table.columns()[i].name);
  }
  ASSERT_EQ(read.columns.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const Column& column = read.columns[i];
    EXPECT_EQ(column.name, names[i]);
    const auto info = std::find_if(table.columns().begin(), table.columns().end(),
                                   [&](const ColumnInfo& each) { return each.name == names[i]; });
    EXPECT_EQ(column.type, info->type);
    EXPECT_EQ(column.categories != nullptr && !column.categories->from_strings, info->enumerated);
    Values wanted;
    for (size_t row = 0; row < rows; ++row) wanted.push_back(value(row, names[i]));
    EXPECT_EQ(values_of(column), wanted);
  }
}

TEST(JoinedExperiment, ObsOfRandomExperiments) {
  const TestSeed seed(1);
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    const Join join = random_join(random);
    const DataFrame obs = join.joined().obs();
    EXPECT_EQ(obs.row_count(), join.cells.size());
    EXPECT_EQ(obs.select("").to_vector(), join.ids);
    std::vector<ConstantColumn> given(1);
    given[0].info.name = "given";
    given[0].info.type = DataType::kStringUtf8;
    given[0].text = "yes";
    EXPECT_EQ(obs.select("given == 'yes'", given).to_vector(), join.ids);
    std::vector<Filter> known = filters();
    known.insert(known.end(), source_filters().begin(), source_filters().end());
    for (const Filter& filter : known) {
      SCOPED_TRACE(filter.text);
      std::vector<int64_t> kept, chosen;
      std::vector<size_t> rows;
      ReadOptions options;
      options.columns = random_names(random, obs);
      options.value_filter = filter.text;
      const bool some = random() % 2 == 0;
      for (size_t cell = 0; cell < join.cells.size(); ++cell) {
        const bool keeps =
            filter.keeps([&](const std::string& name) { return join.obs_value(cell, name); });
        if (keeps) kept.push_back(join.ids[cell]);
        if (some && random() % 2 == 0) continue;
        chosen.push_back(join.ids[cell]);
        if (keeps) rows.push_back(cell);
      }
      EXPECT_EQ(obs.select(filter.text).to_vector(), kept);
      if (some) options.joinids = RowSelection::from_sorted(chosen);
      expect_read(obs, options, rows.size(), [&](size_t row, const std::string& name) {
        return join.obs_value(rows[row], name);
      });
    }
  }
}

TEST(JoinedExperiment, VarOfRandomExperiments) {
  const TestSeed seed(2);
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    const Join join = random_join(random);
    const DataFrame var = join.joined().var("RNA");
    ASSERT_EQ(var.row_count(), join.genes.size());
    for (const Filter& filter : filters()) {
      SCOPED_TRACE(filter.text);
      std::vector<int64_t> kept;
      for (size_t gene = 0; gene < join.genes.size(); ++gene) {
        bool keeps = false;
        for (size_t part = 0; part < join.parts.size(); ++part) {
          const auto row = join.gene_row(part, join.genes[gene]);
          if (!row) continue;
          keeps |= filter.keeps([&](const std::string& name) -> std::optional<std::string> {
            const auto found = join.parts[part].var.find(name);
            return found == join.parts[part].var.end() ? std::nullopt : found->second[*row];
          });
        }
        if (keeps) kept.push_back(static_cast<int64_t>(gene));
      }
      EXPECT_EQ(var.select(filter.text).to_vector(), kept);
      ReadOptions options;
      options.columns = random_names(random, var);
      options.value_filter = filter.text;
      expect_read(var, options, kept.size(), [&](size_t row, const std::string& name) {
        return join.var_value(static_cast<size_t>(kept[row]), name);
      });
    }
  }
}

TEST(JoinedExperiment, XOfRandomExperiments) {
  const TestSeed seed(3);
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    const Join join = random_join(random);
    const Experiment joined = join.joined();
    EXPECT_EQ(joined.measurements(), (std::vector<std::string>{"RNA"}));
    EXPECT_EQ(joined.layers("RNA"), (std::vector<std::string>{"X"}));
    const Matrix x = joined.x("RNA", joined.default_layer("RNA"));
    EXPECT_EQ(x.shape().second, static_cast<int64_t>(join.genes.size()));
    std::vector<int64_t> columns;
    for (size_t gene = 0; gene < join.genes.size(); ++gene) {
      columns.push_back(static_cast<int64_t>(gene));
    }
    const auto reader = HandleAccess::source(x)->reader(columns);
    const auto rows = reader->row_reader(joined.obs().select(""));
    ASSERT_NE(rows, nullptr);
    std::vector<size_t> order(join.cells.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int64_t> ids;
    ids.reserve(order.size());
    for (const size_t cell : order) ids.push_back(join.ids[cell]);
    RowBuffer buffer;
    rows->read(ids, buffer);
    const kernel::RowUnpacker unpacker(reader->row_layout(), DataType::kFloat64);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto [part, row] = join.cells[order[i]];
      std::vector<double> wanted(join.genes.size()), found(join.genes.size());
      for (size_t gene = 0; gene < join.genes.size(); ++gene) {
        const auto stored = join.gene_row(part, join.genes[gene]);
        if (stored) wanted[gene] = join.parts[part].x[row][*stored];
      }
      ASSERT_EQ(
          unpacker.scatter_dense(buffer.records[i], reinterpret_cast<std::byte*>(found.data())),
          kernel::kNoMisfit);
      EXPECT_EQ(found, wanted);
    }
  }
}

}  // namespace
}  // namespace penstock::format
