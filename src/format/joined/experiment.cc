#include <penstock/error.h>
#include <penstock/join.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/concat.h"
#include "base/threads/lazy.h"
#include "base/threads/parallel.h"
#include "format/handle_access.h"
#include "format/joined/gene_match.h"
#include "format/joined/joined_table.h"
#include "format/joined/source.h"

namespace penstock {
namespace {

using format::GeneMatch;
using format::NamedTable;
using format::ObsPart;

using Parts = std::vector<JoinExperiment>;

/// The name that all parts have, else "joined".
std::string common_name(const Parts& parts, std::string JoinExperiment::*name) {
  const std::string& first = parts.front().*name;
  const bool same = std::all_of(parts.begin(), parts.end(),
                                [&](const JoinExperiment& part) { return part.*name == first; });
  return same ? first : "joined";
}

std::vector<NamedTable> var_of(const Parts& parts) {
  std::vector<NamedTable> tables;
  for (const JoinExperiment& part : parts) {
    tables.push_back({part.name, part.experiment.var(part.measurement)});
  }
  return tables;
}

class JoinedExperiment final : public format::StoredExperiment {
 public:
  JoinedExperiment(Parts parts, std::vector<ObsPart> rows, std::shared_ptr<const GeneMatch> match,
                   const std::string& name_column, const std::string& source_column)
      : parts_(std::move(parts)),
        rows_(std::move(rows)),
        match_(std::move(match)),
        measurement_(common_name(parts_, &JoinExperiment::measurement)),
        layer_(common_name(parts_, &JoinExperiment::layer)),
        obs_(format::join_obs(rows_, source_column)),
        var_(format::join_var(var_of(parts_), match_, name_column)) {
    for (const auto& part : parts_) uri_ += (uri_.empty() ? "" : " + ") + part.experiment.uri();
  }

  const std::string& uri() const override { return uri_; }
  const OpenOptions& options() const override { return parts_.front().experiment.options(); }
  DataFrame obs() const override { return HandleAccess::table(obs_); }
  std::vector<std::string> measurements() const override { return {measurement_}; }
  DataFrame var(std::string_view measurement) const override {
    check("measurement", measurement, measurement_);
    return HandleAccess::table(var_);
  }
  std::vector<std::string> layers(std::string_view measurement) const override {
    return {default_layer(measurement)};
  }
  std::string default_layer(std::string_view measurement) const override {
    check("measurement", measurement, measurement_);
    return layer_;
  }
  Matrix x(std::string_view measurement, std::string_view layer) const override {
    check("measurement", measurement, measurement_);
    check("layer", layer, layer_);
    return matrix_.get([this] { return join(); });
  }
  std::map<std::string, std::string> metadata() const override { return {}; }

 private:
  Matrix join() const {
    std::vector<JoinPart> matrices;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const JoinExperiment& part = parts_[i];
      matrices.push_back({part.experiment.x(part.measurement, part.layer), rows_[i].row_offset,
                          rows_[i].row_end, match_->parts[i].joinids, match_->parts[i].places});
    }
    return join_matrices(std::move(matrices), static_cast<int64_t>(match_->names.size()));
  }

  void check(std::string_view what, std::string_view name, const std::string& there) const {
    if (name == there) return;
    throw NotFound(
        concat("there is no ", what, " '", name, "'; the join has '", there, "', in ", uri_));
  }

  std::string uri_;
  Parts parts_;
  std::vector<ObsPart> rows_;
  std::shared_ptr<const GeneMatch> match_;
  std::string measurement_, layer_;
  format::StoredTablePtr obs_, var_;
  Lazy<Matrix> matrix_;
};

void check_arguments(const Parts& parts, const JoinOptions& options) {
  if (parts.empty()) throw InvalidArgument("a join needs one experiment or more");
  if (options.source_column.empty()) {
    throw InvalidArgument("source_column must be a name, got ''");
  }
  if (options.genes != JoinGenes::kListed && !options.gene_names.empty()) {
    throw InvalidArgument("gene_names need genes = JoinGenes::kListed");
  }
  std::set<std::string> names;
  for (const JoinExperiment& part : parts) {
    if (part.name.empty()) {
      throw InvalidArgument("each experiment of a join must have a name, but there is none for " +
                            part.experiment.uri());
    }
    if (!names.insert(part.name).second) {
      throw InvalidArgument("names of joined experiments must be unique, got '" + part.name +
                            "' twice");
    }
  }
}

/// Sets the layer, checks that a part can be joined, and returns its obs. Opens its tables, so that
/// those of all parts open in parallel.
ObsPart open_part(JoinExperiment& part, const std::string& source_column) {
  const Experiment& experiment = part.experiment;
  if (part.layer.empty()) part.layer = experiment.default_layer(part.measurement);
  if (HandleAccess::joined(experiment.x(part.measurement, part.layer)) != 0) {
    throw InvalidArgument("the experiment '" + part.name +
                          "' is a join itself: give all experiments to one join");
  }
  experiment.var(part.measurement).columns();
  const DataFrame obs = experiment.obs();
  for (const ColumnInfo& column : obs.columns()) {
    if (column.name != source_column) continue;
    throw InvalidArgument(concat("obs of the experiment '", part.name, "' has a column '",
                                 source_column, "' already; name another source_column"));
  }
  const RowSelection ids = obs.select("");
  return {{part.name, obs}, 0, ids.empty() ? 0 : ids.at(ids.size() - 1) + 1};
}

/// Puts the rows of each part after those of the part before.
void place_rows(std::vector<ObsPart>& rows) {
  constexpr int64_t kMostWords = std::numeric_limits<int64_t>::max() / format::kRowsPerWord;
  int64_t words = 0;  // of 2^32 rows
  for (ObsPart& part : rows) {
    part.row_offset = words * format::kRowsPerWord;
    words += part.row_end == 0 ? 1 : (part.row_end - 1) / format::kRowsPerWord + 1;
    if (words > kMostWords) {
      throw ResourceExhausted(concat("joinids are too large to be joined: those of '",
                                     part.obs.name, "' end at ", part.row_end));
    }
  }
}

}  // namespace

Experiment join_experiments(std::vector<JoinExperiment> experiments, const JoinOptions& options) {
  check_arguments(experiments, options);
  const unsigned threads = experiments.front().experiment.options().threads;
  std::vector<std::optional<ObsPart>> opened(experiments.size());
  parallel_for(experiments.size(), threads,
               [&](size_t i) { opened[i] = open_part(experiments[i], options.source_column); });
  std::vector<ObsPart> rows;
  rows.reserve(opened.size());
  for (auto& part : opened) rows.push_back(std::move(*part));
  place_rows(rows);
  const std::vector<NamedTable> var = var_of(experiments);
  const std::string column = format::gene_name_column(var, options.var_column);
  auto match =
      std::make_shared<const GeneMatch>(format::match_genes(var, column, options, threads));
  return HandleAccess::experiment(std::make_shared<const JoinedExperiment>(
      std::move(experiments), std::move(rows), std::move(match), column, options.source_column));
}

}  // namespace penstock
