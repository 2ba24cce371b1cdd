#include "format/stacked/stacked_experiment.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/threads/lazy.h"
#include "base/threads/mutex.h"
#include "base/threads/parallel.h"
#include "format/handle_access.h"
#include "format/stacked/stacked_source.h"
#include "format/stacked/stacked_table.h"
#include "format/stored_matrix.h"
#include "io/store.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

class StackedExperiment final : public StoredExperiment {
 public:
  StackedExperiment(std::string uri, OpenOptions options, std::vector<StoredExperimentPtr> parts)
      : uri_(std::move(uri)), options_(std::move(options)), parts_(std::move(parts)) {}

  const std::string& uri() const override { return uri_; }
  const OpenOptions& options() const override { return options_; }
  DataFrame obs() const override {
    return HandleAccess::table(obs_.get([&] {
      std::vector<StoredTablePtr> tables(parts_.size());
      parallel_for(parts_.size(), options_.threads,
                   [&](size_t i) { tables[i] = HandleAccess::stored(parts_[i]->obs()); });
      return stack_tables(io::join(uri_, "obs"), std::move(tables));
    }));
  }
  std::vector<std::string> measurements() const override { return parts_[0]->measurements(); }
  DataFrame var(std::string_view measurement) const override { return parts_[0]->var(measurement); }
  std::vector<std::string> layers(std::string_view measurement) const override {
    return parts_[0]->layers(measurement);
  }
  std::string default_layer(std::string_view measurement) const override {
    return parts_[0]->default_layer(measurement);
  }
  std::map<std::string, std::string> metadata() const override { return parts_[0]->metadata(); }

  Matrix x(std::string_view measurement, std::string_view layer) const override {
    const std::string name = std::string(measurement) + "/" + std::string(layer);
    {
      const MutexLock lock(mutex_);
      if (const auto held = matrices_.find(name); held != matrices_.end()) return held->second;
    }
    const Matrix made = HandleAccess::named(stack(measurement, layer), measurement, layer);
    const MutexLock lock(mutex_);
    return matrices_.try_emplace(name, made).first->second;
  }

 private:
  Matrix stack(std::string_view measurement, std::string_view layer) const {
    std::vector<MatrixSourcePtr> sources(parts_.size());
    parallel_for(parts_.size(), options_.threads, [&](size_t i) {
      const Matrix part = layer_of(i, measurement, layer);
      part.expect_rows();
      sources[i] = HandleAccess::source(part);
    });
    expect_same_types(sources, layer);
    expect_same_genes(measurement);
    const Matrix first = parts_[0]->x(measurement, layer);
    const MatrixSourcePtr source =
        with_place([&] { return stack_sources(std::move(sources)); }, [&] { return uri_; });
    const MatrixInfo& info = source->info();
    auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
        [source] { return source; },
        [rows = info.row_domain_end] { return std::optional(RowSelection::range(0, rows)); }});
    state->path = first.uri();
    state->shape = {info.row_domain_end, info.column_domain_end};
    state->value_type = info.value_type;
    state->stored_bytes = info.stored_bytes;
    state->fragment_count = info.fragment_count;
    state->layout = info.layout;
    return HandleAccess::matrix(std::move(state));
  }

  /// A layer of a part. The list of layers is the first part's.
  Matrix layer_of(size_t part, std::string_view measurement, std::string_view layer) const {
    try {
      return parts_[part]->x(measurement, layer);
    } catch (const NotFound&) {
      if (part == 0) throw;
      throw NotFound(concat("there is no layer '", layer, "' of measurement '", measurement,
                            "' in ", parts_[part]->uri(), ", but in ", parts_[0]->uri(),
                            "; every dataset of a collection must have it"));
    }
  }

  void expect_same_types(const std::vector<MatrixSourcePtr>& sources,
                         std::string_view layer) const {
    std::map<DataType, size_t> first_with;
    for (size_t i = 0; i < sources.size(); ++i) {
      first_with.try_emplace(sources[i]->info().value_type, i);
    }
    if (first_with.size() == 1) return;
    std::string types;
    for (const auto& [type, part] : first_with) {
      types += concat(types.empty() ? "" : ", ", name_of(type), " in ", parts_[part]->uri());
    }
    throw InvalidArgument(concat("values of the datasets must be of one type, found ", types,
                                 ", in the layer '", layer,
                                 "'; join the datasets with penstock.join, which converts them"));
  }

  /// Columns are not matched, so the names must be those of the first part, in their order.
  void expect_same_genes(std::string_view measurement) const {
    const std::string index = "var_names";
    const auto names_of = [&](size_t part) {
      ReadOptions wanted;
      wanted.columns = {index};
      Table table = parts_[part]->var(measurement).read(wanted);
      table::decode_strings(table.columns[0]);
      std::vector<std::string> names;
      for (uint64_t i = 0; i < table.row_count; ++i) {
        names.emplace_back(table.columns[0].string_at(i));
      }
      return names;
    };
    const auto columns = parts_[0]->var(measurement).columns();
    if (std::none_of(columns.begin(), columns.end(),
                     [&](const ColumnInfo& column) { return column.name == index; })) {
      return;
    }
    const std::vector<std::string> first = names_of(0);
    parallel_for(parts_.size() - 1, options_.threads, [&](size_t i) {
      if (names_of(i + 1) == first) return;
      throw InvalidArgument(
          "the genes of a dataset are not those of the first one, in that order; "
          "join the datasets with penstock.join, in " +
          parts_[i + 1]->uri());
    });
  }

  const std::string uri_;
  const OpenOptions options_;
  const std::vector<StoredExperimentPtr> parts_;
  Lazy<StoredTablePtr> obs_;
  mutable Mutex mutex_;
  mutable std::map<std::string, Matrix> matrices_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace

StoredExperimentPtr stack_experiments(std::string uri, OpenOptions options,
                                      std::vector<StoredExperimentPtr> parts) {
  return std::make_shared<const StackedExperiment>(std::move(uri), std::move(options),
                                                   std::move(parts));
}

}  // namespace penstock::format
