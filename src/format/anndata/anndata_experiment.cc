#include "format/anndata/anndata_experiment.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "format/anndata/elements.h"
#include "format/anndata/record_axis.h"
#include "format/anndata/stored_axis.h"
#include "format/csc/csc_array.h"
#include "format/csr/csr_reader.h"
#include "format/dense/dense_reader.h"
#include "format/handle_access.h"
#include "format/stored_matrix.h"

// Tables and matrices are opened when they are asked for and then kept.

namespace penstock::format::anndata {

std::string choose_from(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return names.empty() ? " nor any other" : "; choose from " + text;
}

namespace {

constexpr std::string_view kRaw = "raw";
constexpr std::string_view kX = "X";
constexpr std::string_view kLayers = "layers";

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The name of layers["X"] of an object that has an X, too: one that no layer has.
std::string second_x(const std::vector<std::string>& layers) {
  std::string name = "layers.X";
  while (among(layers, name)) name = "layers." + name;
  return name;
}

class AnnDataExperiment final : public StoredExperiment {
 public:
  AnnDataExperiment(chunked::GroupPtr root, std::string uri, const OpenOptions& options)
      : root_(std::move(root)), uri_(std::move(uri)), options_(options) {
    expect_known_encoding(root_->attributes(), uri_);
    if (has("raw/X")) {
      raw_x_ = "raw/X";
    } else if (!root_->group("obs") && has("raw.X")) {  // as before anndata 0.7
      raw_x_ = "raw.X";
    }
  }

  const std::string& uri() const override { return uri_; }
  const OpenOptions& options() const override { return options_; }
  DataFrame obs() const override { return axis("obs", "obs_names"); }

  std::vector<std::string> measurements() const override {
    std::vector<std::string> names{std::string(kMainMeasurement)};
    if (!raw_x_.empty()) names.emplace_back(kRaw);
    return names;
  }

  DataFrame var(std::string_view measurement) const override {
    if (!is_raw(measurement)) return axis("var", "var_names");
    expect_known_group(kRaw);
    return axis(raw_x_ == "raw/X" ? "raw/var" : "raw.var", "var_names");
  }

  std::vector<std::string> layers(std::string_view measurement) const override {
    std::vector<std::string> names;
    if (is_raw(measurement) || has("X")) names.emplace_back(kX);
    if (is_raw(measurement)) return names;
    if (const auto stored = root_->group(std::string(kLayers))) {
      const bool has_x = !names.empty();
      const auto own = stored->members();
      for (const std::string& name : own) {
        names.push_back(has_x && name == kX ? second_x(own) : name);
      }
    }
    return names;
  }

  std::string default_layer(std::string_view measurement) const override {
    const auto names = layers(measurement);
    if (names.empty()) throw NotFound("there is no X and no layer, in " + uri_);
    if (names[0] == kX || names.size() == 1) return names[0];
    throw NotFound("there is no X" + choose_from(names) + " with layer=, in " + uri_);
  }

  Matrix x(std::string_view measurement, std::string_view layer) const override;

  std::map<std::string, std::string> metadata() const override {
    std::map<std::string, std::string> texts;
    for (const auto& [name, value] : root_->attributes().items()) {
      texts.emplace(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return texts;
  }

 private:
  /// Whether an element is there, also if it is of a kind that is not read. The error comes when
  /// the element is opened, so that the others can be read. A null (None) is no element: mudata and
  /// anndata write one for an X that there is not.
  bool has(const std::string& place) const {
    try {
      if (root_->group(place) != nullptr) return true;
      const auto array = root_->array(place);
      return array != nullptr && encoding_of(array->attributes()) != "null";
    } catch (const Unsupported&) {
      return true;
    }
  }

  void expect_known_group(std::string_view name) const {
    const auto group = root_->group(std::string(name));
    if (group) expect_known_encoding(group->attributes(), group->path());
  }

  bool is_raw(std::string_view measurement) const {
    if (measurement == kMainMeasurement) return false;
    if (measurement == kRaw && !raw_x_.empty()) return true;
    throw NotFound("there is no measurement '" + std::string(measurement) + "'" +
                   choose_from(measurements()) + ", in " + uri_);
  }

  /// Where a layer is, below the root.
  std::string place_of(std::string_view measurement, std::string_view layer) const {
    const auto names = layers(measurement);
    if (!among(names, layer)) {
      throw NotFound("there is no layer '" + std::string(layer) + "'" + choose_from(names) +
                     ", in " + uri_);
    }
    if (is_raw(measurement)) return raw_x_;  // var() has checked the group
    if (has("X")) {
      if (layer == kX) return "X";
      const auto stored = root_->group(std::string(kLayers));
      const auto own = stored ? stored->members() : std::vector<std::string>();
      if (among(own, kX) && layer == second_x(own)) layer = kX;
    }
    expect_known_group(kLayers);
    return "layers/" + std::string(layer);
  }

  DataFrame axis(const std::string& place, const std::string& names) const {
    const MutexLock lock(mutex_);
    StoredTablePtr& held = axes_[place];
    if (!held) {
      if (auto group = root_->group(place)) {
        held = open_axis(std::move(group), names, options_.threads);
      } else if (auto records = root_->array(place)) {
        const auto categories = root_->group(place == "raw.var" ? "raw.cat" : "uns");
        held = open_record_axis(std::move(records), categories, names, options_.threads);
      } else {
        throw CorruptData("there is no table '" + place + "', in " + uri_);
      }
    }
    return HandleAccess::table(held);
  }

  MatrixSourcePtr open_matrix(const std::string& place, uint64_t rows, uint64_t columns) const;

  const chunked::GroupPtr root_;
  const std::string uri_;
  const OpenOptions options_;
  std::string raw_x_;  ///< where the X of raw is; empty if there is none
  mutable Mutex mutex_;
  mutable std::map<std::string, StoredTablePtr> axes_ PENSTOCK_GUARDED_BY(mutex_);
  mutable std::map<std::string, Matrix> matrices_ PENSTOCK_GUARDED_BY(mutex_);
};

MatrixSourcePtr AnnDataExperiment::open_matrix(const std::string& place, uint64_t rows,
                                               uint64_t columns) const {
  if (auto array = root_->array(place)) {
    expect_known_encoding(array->attributes(), array->info().path);
    return make_dense_source(DenseMatrix::load(std::move(array), rows, columns));
  }
  const auto group = root_->group(place);
  if (!group) throw CorruptData("there is no element '" + place + "', in " + uri_);
  expect_known_encoding(group->attributes(), group->path());
  const std::string encoding = encoding_of(group->attributes());
  const bool by_genes = encoding == "csc_matrix";
  if (!by_genes && encoding != "csr_matrix") {
    throw Unsupported("a matrix must be an array, a csr_matrix or a csc_matrix, this one is '" +
                      encoding + "', in " + group->path());
  }
  const auto shape = sparse_shape(group->attributes(), group->path());
  if (shape.first != rows || shape.second != columns) {
    throw CorruptData(concat("a matrix must be ", rows, " cells x ", columns,
                             " genes, as obs and var say; this one is ", shape.first, " x ",
                             shape.second, ", in ", group->path()));
  }
  if (by_genes) return make_csc_source(CscArray::load(*group, rows, columns, options_.threads));
  return make_csr_source(CsrArray::load(*group, rows, columns, options_.threads));
}

Matrix AnnDataExperiment::x(std::string_view measurement, std::string_view layer) const {
  const std::string place = place_of(measurement, layer);
  {
    const MutexLock lock(mutex_);
    if (const auto held = matrices_.find(place); held != matrices_.end()) return held->second;
  }
  const uint64_t rows = obs().row_count();
  const uint64_t columns = var(measurement).row_count();
  const auto source = open_matrix(place, rows, columns);
  const MatrixInfo& info = source->info();
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [source] { return source; },
      [rows] { return std::optional(RowSelection::range(0, static_cast<int64_t>(rows))); }});
  state->path = io::join(uri_, place);
  state->shape = {info.row_domain_end, info.column_domain_end};
  state->value_type = info.value_type;
  state->stored_bytes = info.stored_bytes;
  state->fragment_count = info.fragment_count;
  state->layout = info.layout;
  state->stored_by_columns = info.stored_by_columns;
  const Matrix made =
      HandleAccess::named(HandleAccess::matrix(std::move(state)), measurement, layer);
  const MutexLock lock(mutex_);
  return matrices_.try_emplace(place, made).first->second;
}

}  // namespace

StoredExperimentPtr make_experiment(chunked::GroupPtr root, std::string uri,
                                    const OpenOptions& options) {
  return std::make_shared<const AnnDataExperiment>(std::move(root), std::move(uri), options);
}

}  // namespace penstock::format::anndata
