#include <penstock/error.h>
#include <penstock/memory.h>

#include <map>
#include <utility>

#include "base/concat.h"
#include "format/handle_access.h"
#include "format/memory/memory_matrix.h"
#include "format/memory/memory_table.h"
#include "format/stored_experiment.h"
#include "format/stored_matrix.h"

namespace penstock {
namespace {

using format::MatrixSourcePtr;
using format::StoredTablePtr;

class InMemoryExperiment final : public format::StoredExperiment {
 public:
  explicit InMemoryExperiment(MemoryExperiment&& cells) : uri_(std::move(cells.uri)) {
    const uint64_t rows = cells.obs_count;
    obs_ = format::make_memory_table(uri_ + "/obs", std::move(cells.obs), rows,
                                     std::move(cells.obs_unread));
    for (MemoryMeasurement& given : cells.measurements) {
      Measurement measurement;
      measurement.name = given.name;
      measurement.var =
          format::make_memory_table(uri_ + "/" + given.name + "/var", std::move(given.var),
                                    given.var_count, std::move(given.var_unread));
      for (auto& [name, matrix] : given.layers) {
        measurement.layers.emplace_back(
            name, open_matrix(given.name, name, std::move(matrix), rows, given.var_count));
      }
      measurements_.push_back(std::move(measurement));
    }
  }

  const std::string& uri() const override { return uri_; }
  const OpenOptions& options() const override { return options_; }
  DataFrame obs() const override { return HandleAccess::table(obs_); }
  std::vector<std::string> measurements() const override {
    std::vector<std::string> names;
    for (const Measurement& each : measurements_) names.push_back(each.name);
    return names;
  }
  DataFrame var(std::string_view measurement) const override {
    return HandleAccess::table(find(measurement).var);
  }
  std::vector<std::string> layers(std::string_view measurement) const override {
    std::vector<std::string> names;
    for (const auto& [name, matrix] : find(measurement).layers) names.push_back(name);
    return names;
  }
  std::string default_layer(std::string_view measurement) const override {
    const Measurement& found = find(measurement);
    if (found.layers.empty()) {
      throw NotFound(concat("measurement '", measurement, "' has no layer, in ", uri_));
    }
    return found.layers.front().first;
  }
  Matrix x(std::string_view measurement, std::string_view layer) const override {
    const Measurement& found = find(measurement);
    std::string names;
    for (const auto& [name, matrix] : found.layers) {
      if (name == layer) return matrix;
      names += (names.empty() ? "" : ", ") + name;
    }
    throw NotFound(concat("there is no layer '", layer, "'", names.empty() ? "" : "; choose from ",
                          names, ", in ", uri_));
  }
  std::map<std::string, std::string> metadata() const override { return {}; }

 private:
  struct Measurement {
    std::string name;
    StoredTablePtr var;
    std::vector<std::pair<std::string, Matrix>> layers;
  };

  const Measurement& find(std::string_view name) const {
    std::string names;
    for (const Measurement& each : measurements_) {
      if (each.name == name) return each;
      names += (names.empty() ? "" : ", ") + each.name;
    }
    throw NotFound(
        concat("there is no measurement '", name, "'; choose from ", names, ", in ", uri_));
  }

  Matrix open_matrix(const std::string& measurement, const std::string& layer,
                     MatrixInMemory&& matrix, uint64_t rows, uint64_t columns) const {
    const std::string path = concat(uri_, "/", measurement, "/", layer);
    const MatrixSourcePtr source = with_place(
        [&] { return format::make_memory_source(std::move(matrix), path); }, [&] { return path; });
    const format::MatrixInfo& info = source->info();
    if (info.row_domain_end != static_cast<int64_t>(rows) ||
        info.column_domain_end != static_cast<int64_t>(columns)) {
      throw InvalidArgument(concat("a matrix must be ", rows, " cells x ", columns,
                                   " genes, as obs and var say; this one is ", info.row_domain_end,
                                   " x ", info.column_domain_end, ", in ", path));
    }
    auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
        [source] { return source; },
        [rows] { return std::optional(RowSelection::range(0, static_cast<int64_t>(rows))); }});
    state->path = path;
    state->shape = {info.row_domain_end, info.column_domain_end};
    state->value_type = info.value_type;
    state->stored_bytes = info.stored_bytes;
    state->fragment_count = info.fragment_count;
    state->layout = info.layout;
    state->addresses_rows = true;
    return HandleAccess::named(HandleAccess::matrix(std::move(state)), measurement, layer);
  }

  std::string uri_;
  OpenOptions options_;
  StoredTablePtr obs_;
  std::vector<Measurement> measurements_;
};

}  // namespace

Experiment open_in_memory(MemoryExperiment cells) {
  return HandleAccess::experiment(std::make_shared<const InMemoryExperiment>(std::move(cells)));
}

}  // namespace penstock
