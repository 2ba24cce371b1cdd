#include "format/pack/experiment.h"

#include <algorithm>
#include <utility>

#include "base/threads/lazy_map.h"
#include "format/anndata/stored_axis.h"
#include "format/handle_access.h"
#include "format/pack/kept_table.h"
#include "format/pack/open_pack.h"
#include "format/soma/data_frame.h"
#include "format/stored_matrix.h"
#include "format/zarr/hierarchy.h"

namespace penstock::format::pack {
namespace {

OpenOptions at_time_of(const PackContents& contents, OpenOptions options) {
  options.timestamp_ms = contents.timestamp_ms;
  return options;
}

class PackExperiment final : public StoredExperiment {
 public:
  PackExperiment(const ExperimentPlace& place, const OpenOptions& options, PackContents contents)
      : store_(place.store),
        path_(place.path),
        options_(at_time_of(contents, options)),
        contents_(std::move(contents)),
        tables_(checked_store(store_, path_, contents_.tables)) {}

  const std::string& uri() const override { return path_; }
  const OpenOptions& options() const override { return options_; }

  DataFrame obs() const override {
    return HandleAccess::table(frames_.get("obs", [&]() -> StoredTablePtr {
      auto stored = table(obs_path(path_), "obs_names");
      if (!contents_.rows) return stored;
      return std::make_shared<const KeptTable>(std::move(stored), *contents_.rows);
    }));
  }

  std::vector<std::string> measurements() const override {
    std::vector<std::string> names;
    for (const PackedMeasurement& each : contents_.measurements) names.push_back(each.name);
    return names;
  }

  DataFrame var(std::string_view measurement) const override {
    const std::string path = var_path(path_, contents_.measurement(measurement, path_).name);
    return HandleAccess::table(frames_.get(path, [&] { return table(path, "var_names"); }));
  }

  std::vector<std::string> layers(std::string_view measurement) const override {
    std::vector<std::string> names;
    for (const auto& layer : contents_.measurement(measurement, path_).layers) {
      names.push_back(layer.name);
    }
    return names;
  }

  std::string default_layer(std::string_view measurement) const override {
    const PackedMeasurement& packed = contents_.measurement(measurement, path_);
    if (packed.layers.size() == 1) return packed.layers.front().name;
    for (const PackedLayerContents& layer : packed.layers) {
      if (layer.name == kUsualLayer) return layer.name;
    }
    // The usual layer of AnnData, or else the error that lists the layers.
    const bool has_x = std::any_of(packed.layers.begin(), packed.layers.end(),
                                   [](const auto& layer) { return layer.name == "X"; });
    return layer_of(packed, has_x ? std::string_view("X") : kUsualLayer, path_).name;
  }

  Matrix x(std::string_view measurement, std::string_view layer) const override {
    const PackedMeasurement& packed = contents_.measurement(measurement, path_);
    const PackedLayerContents& wanted = layer_of(packed, layer, path_);
    const std::string folder = layer_path(path_, packed.name, wanted.name);
    return HandleAccess::matrix(matrices_.get(
        folder, [&] { return open_matrix(store_, folder, wanted, obs(), options_.threads); }));
  }

  std::map<std::string, std::string> metadata() const override { return contents_.metadata; }

 private:
  StoredTablePtr table(const std::string& path, const std::string& names) const {
    if (auto group = zarr::open_zarr(tables_, path)) {
      return anndata::open_axis(std::move(group), names, options_.threads);
    }
    tiledb::TimeRange range;
    if (options_.timestamp_ms) range.end = *options_.timestamp_ms;
    return std::make_shared<const soma::SomaTable>(tables_, path, range, options_.threads);
  }

  io::StorePtr store_;
  std::string path_;
  OpenOptions options_;
  PackContents contents_;
  io::StorePtr tables_;  ///< where files of obs and var are checked
  LazyMap<StoredTable> frames_;
  LazyMap<HandleAccess::MatrixState> matrices_;
};

}  // namespace

StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options) {
  const io::Store& store = *place.store;
  if (place.is_file || !store.exists(io::join(place.path, kContentsName))) return nullptr;
  PackContents contents = open_contents(store, place.path, options);
  expect_files(store, files_of(contents, place.path));
  return std::make_shared<const PackExperiment>(place, options, std::move(contents));
}

}  // namespace penstock::format::pack
