#include "format/anndata/mudata.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "base/types/visit_type.h"
#include "format/anndata/anndata_experiment.h"
#include "format/anndata/elements.h"
#include "format/chunked/made_group.h"
#include "format/chunked/read_array.h"
#include "format/handle_access.h"

namespace penstock::format::anndata {
namespace {

using chunked::ArrayPtr;
using chunked::GroupPtr;
using chunked::MadeGroup;
using nlohmann::json;

constexpr std::string_view kRawOf = ":raw";

/// Names of the modalities in the order of the object. Throws Unsupported for a name with a slash,
/// which is stored as a group in a group.
std::vector<std::string> modalities_of(const chunked::Group& mod) {
  std::vector<std::string> stored = mod.members();
  const auto order = mod.attributes().find("mod-order");
  if (order == mod.attributes().end() || !order->is_array()) return stored;
  std::vector<std::string> named;
  for (const auto& name : *order) {
    if (name.is_string()) named.push_back(name.get<std::string>());
    if (name.is_string() && named.back().find('/') != std::string::npos) {
      throw Unsupported("modality '" + named.back() + "' has a slash in its name; open it alone, " +
                        mod.path() + "/" + named.back() +
                        ", or rename it with mudata and write the object again");
    }
  }
  // As mudata does, an order that does not fit is no order.
  return std::is_permutation(named.begin(), named.end(), stored.begin(), stored.end()) ? named
                                                                                       : stored;
}

/// Whether the modality has every one of the object's `cells`, in its order. obsmap has for each
/// cell its place in the modality, from 1; 0 if it is not there. Without an obsmap it is not known.
bool has_all_cells(const chunked::Group& root, const std::string& modality, uint64_t cells) {
  const auto map = root.array("obsmap/" + modality);
  if (!map) return false;
  const auto& info = map->info();
  return with_place(
      [&] {
        if (info.shape != std::vector<uint64_t>{cells}) {
          throw CorruptData(concat("obsmap must have a place for each of ", cells,
                                   " cells, it has ", info.cells()));
        }
        const Buffer places = chunked::read_values(*map, 0, cells, 1);
        return visit_number(
            info.type,
            [&](auto identity) {
              using Number = typename decltype(identity)::type;
              uint64_t expected = 0;
              for (const Number place : places.as<Number>()) {
                if (static_cast<uint64_t>(place) != ++expected) return false;
              }
              return true;
            },
            "places of cells");
      },
      [&] { return info.path; });
}

/// A column as anndata before 0.8 stores categories: beside the columns, named by an attribute of
/// the codes. The group says the same, wherever it is.
GroupPtr as_categories(const ArrayPtr& codes, const ArrayPtr& categories) {
  auto made = std::make_shared<MadeGroup>(
      codes->info().path, json{{"encoding-type", "categorical"},
                               {"encoding-version", "0.2.0"},
                               {"ordered", is_set(categories->attributes(), "ordered")}});
  made->add("codes", codes);
  made->add("categories", categories);
  return made;
}

/// The table of the whole object, and the columns of modalities.
class ObsOfAll {
 public:
  explicit ObsOfAll(GroupPtr obs) : stored_(std::move(obs)), columns_(column_order(*stored_)) {
    for (const std::string& column : columns_) modality_of_.emplace(column, "");
  }

  /// Adds the columns of a modality. Those that the whole object has are its copies of them.
  void add(const std::string& modality, const chunked::Group& obs) {
    for (const std::string& column : column_order(obs)) {
      const std::string name = modality + ":" + column;
      const auto [before, is_new] = modality_of_.emplace(name, modality);
      if (!is_new && before->second.empty()) continue;
      if (!is_new) {
        throw InvalidArgument("columns of the modalities '" + before->second + "' and '" +
                              modality + "' are both called '" + name +
                              "'; rename one with mudata, or open each alone, in " + obs.path());
      }
      columns_.push_back(name);
      if (auto group = obs.group(column)) {
        groups_.emplace(name, std::move(group));
      } else if (auto array = obs.array(column)) {
        const std::string categories = text_attribute(array->attributes(), "categories");
        auto named = categories.empty() ? nullptr : obs.array(categories);
        if (named) {
          groups_.emplace(name, as_categories(array, named));
        } else {
          arrays_.emplace(name, std::move(array));
        }
      } else {
        throw CorruptData("there is no column '" + column + "', in " + obs.path());
      }
    }
  }

  GroupPtr table() const {
    json attributes = stored_->attributes();
    attributes["column-order"] = columns_;
    auto made = std::make_shared<MadeGroup>(stored_->path(), std::move(attributes));
    for (const auto& [name, array] : arrays_) made->add(name, array);
    for (const auto& [name, group] : groups_) made->add(name, group);
    made->look_in(stored_);
    return made;
  }

 private:
  GroupPtr stored_;
  std::vector<std::string> columns_;
  std::map<std::string, std::string> modality_of_;  ///< by column; empty: of the whole object
  std::map<std::string, ArrayPtr> arrays_;
  std::map<std::string, GroupPtr> groups_;
};

/// An AnnData of nothing but this obs.
GroupPtr whole_object(const chunked::Group& root, const GroupPtr& obs) {
  auto made = std::make_shared<MadeGroup>(root.path(), root.attributes());
  made->add("obs", obs);
  return made;
}

/// A modality; of `stored`, obs is that of the whole object.
struct Modality {
  std::string name;
  std::string path;
  StoredExperimentPtr stored;  ///< null: it has other cells
};

class MudataExperiment final : public StoredExperiment {
 public:
  MudataExperiment(std::string uri, OpenOptions options, std::vector<Modality> modalities,
                   const GroupPtr& root, const GroupPtr& obs)
      : uri_(std::move(uri)),
        options_(std::move(options)),
        modalities_(std::move(modalities)),
        whole_(make_experiment(whole_object(*root, obs), uri_, options_)) {
    for (const Modality& modality : modalities_) {
      const std::string raw = raw_of(modality);
      if (raw.empty() || !is_modality(raw)) continue;
      throw InvalidArgument("the modality '" + raw + "' is called as the raw of '" + modality.name +
                            "'; rename it with mudata, or open each alone, in " + uri_);
    }
  }

  const std::string& uri() const override { return uri_; }
  const OpenOptions& options() const override { return options_; }
  DataFrame obs() const override { return whole_->obs(); }

  std::vector<std::string> measurements() const override {
    std::vector<std::string> names;
    for (const Modality& modality : modalities_) {
      names.push_back(modality.name);
      if (std::string raw = raw_of(modality); !raw.empty()) names.push_back(std::move(raw));
    }
    return names;
  }

  DataFrame var(std::string_view measurement) const override {
    const auto [stored, inner] = find(measurement);
    return stored->var(inner);
  }
  std::vector<std::string> layers(std::string_view measurement) const override {
    const auto [stored, inner] = find(measurement);
    return stored->layers(inner);
  }
  std::string default_layer(std::string_view measurement) const override {
    const auto [stored, inner] = find(measurement);
    return stored->default_layer(inner);
  }
  Matrix x(std::string_view measurement, std::string_view layer) const override {
    const auto [stored, inner] = find(measurement);
    return HandleAccess::named(stored->x(inner, layer), measurement, layer);
  }
  std::map<std::string, std::string> metadata() const override { return whole_->metadata(); }

 private:
  /// The measurement of a modality's raw; empty if it has none.
  static std::string raw_of(const Modality& modality) {
    const bool has_raw = modality.stored && modality.stored->measurements().size() > 1;
    return has_raw ? modality.name + std::string(kRawOf) : std::string();
  }

  bool is_modality(std::string_view name) const {
    return std::any_of(modalities_.begin(), modalities_.end(),
                       [&](const Modality& modality) { return modality.name == name; });
  }

  /// The AnnData of a measurement, and how the measurement is called there.
  std::pair<const StoredExperiment*, std::string_view> find(std::string_view measurement) const {
    for (const Modality& modality : modalities_) {
      const bool raw =
          !is_modality(measurement) && measurement == modality.name + std::string(kRawOf);
      if (!raw && measurement != modality.name) continue;
      if (!modality.stored) {
        throw Unsupported("modality '" + modality.name +
                          "' has not the cells of the whole object in their order, or no "
                          "obsmap that says so; open it alone, " +
                          modality.path + ", or keep the cells that every modality has: " +
                          "muon.pp.intersect_obs(mdata)");
      }
      return {modality.stored.get(), raw ? "raw" : kMainMeasurement};
    }
    throw NotFound("there is no measurement '" + std::string(measurement) + "'" +
                   choose_from(measurements()) + ", in " + uri_);
  }

  const std::string uri_;
  const OpenOptions options_;
  const std::vector<Modality> modalities_;
  const StoredExperimentPtr whole_;  ///< obs and attributes
};

}  // namespace

StoredExperimentPtr open_mudata(const GroupPtr& root, const std::string& path,
                                const OpenOptions& options) {
  expect_known_encoding(root->attributes(), path);
  const auto mod = root->group("mod");
  const auto obs = root->group("obs");
  if (!mod || !obs) throw CorruptData("a MuData has the groups mod and obs, in " + path);
  const auto axis = root->attributes().find("axis");
  if (axis != root->attributes().end() && *axis != 0) {
    throw Unsupported("modalities must be of the same cells (axis 0), this object has axis " +
                      axis->dump() + "; open them one by one, as " + path + "/mod/NAME: " + path);
  }
  const auto names = modalities_of(*mod);
  std::vector<GroupPtr> groups(names.size());
  std::vector<char> whole(names.size());
  const uint64_t cells =
      make_experiment(whole_object(*root, obs), path, options)->obs().row_count();
  parallel_for(names.size(), options.threads, [&](size_t i) {
    groups[i] = mod->group(names[i]);
    whole[i] = groups[i] && has_all_cells(*root, names[i], cells);
  });
  ObsOfAll all(obs);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto own = whole[i] ? groups[i]->group("obs") : nullptr;
    if (own) all.add(names[i], *own);
  }
  const GroupPtr table = all.table();
  std::vector<Modality> modalities;
  for (size_t i = 0; i < names.size(); ++i) {
    Modality modality{names[i], path + "/mod/" + names[i], nullptr};
    if (whole[i]) {
      auto made = std::make_shared<MadeGroup>(groups[i]->path(), groups[i]->attributes());
      made->add("obs", table);
      made->look_in(groups[i]);
      modality.stored = make_experiment(std::move(made), modality.path, options);
    }
    modalities.push_back(std::move(modality));
  }
  return std::make_shared<const MudataExperiment>(path, options, std::move(modalities), root,
                                                  table);
}

}  // namespace penstock::format::anndata
