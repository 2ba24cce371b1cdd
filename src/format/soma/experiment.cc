#include "format/soma/experiment.h"

#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/threads/lazy_map.h"
#include "format/handle_access.h"
#include "format/soma/data_frame.h"
#include "format/soma/matrix.h"
#include "format/stored_matrix.h"
#include "format/tiledb/directory/prefetch.h"
#include "format/tiledb/group.h"
#include "format/tiledb/metadata.h"
#include "io/storage_options.h"
#include "io/url_secrets.h"

// A SOMA experiment is a TileDB group of obs (an array) and ms (a group of measurements). A
// measurement is a group of var (an array) and X (a group of arrays). Source: TileDB-SOMA, spec of
// the data model.
//
// Groups are read on first use and kept. Every object is checked against its soma_object_type, so
// that errors can distinguish a wrong path from a damaged object.

namespace penstock::format::soma {
namespace {

using tiledb::Group;
using tiledb::GroupMember;
using tiledb::Metadata;
using tiledb::MetadataValue;
using tiledb::ObjectType;
using tiledb::TimeRange;

constexpr std::string_view kTypeKey = "soma_object_type";

/// Returns the shortest text that parses to the same number: 419, 0.1.
std::string text_of(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string text_of(const MetadataValue& value) {
  if (auto text = value.as_string()) return *text;
  if (const auto number = value.as_int()) return std::to_string(*number);
  if (const auto number = value.as_double()) return text_of(*number);
  return "<" + std::to_string(value.count) + " of " + std::string(name_of(value.type)) + ">";
}

/// Returns the soma_object_type of the object at `path`, or nothing.
std::string soma_type(const io::Store& store, const std::string& path, const TimeRange& range) {
  const Metadata metadata = load_metadata(store, path, range);
  const auto found = metadata.find(kTypeKey);
  return found == metadata.end() ? std::string() : text_of(found->second);
}

std::string names_of(const Group& group, ObjectType type) {
  std::string names;
  for (const auto& [name, member] : group.members()) {
    if (member.type == type) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

bool is_experiment(const Metadata& metadata) {
  const auto type = metadata.find(kTypeKey);
  return type != metadata.end() && text_of(type->second) == "SOMAExperiment";
}

/// What a TileDB object is instead; empty if none is there.
std::string not_an_experiment(const io::Store& store, const std::string& path,
                              const TimeRange& range) {
  switch (tiledb::object_type(store, path)) {
    case ObjectType::kGroup: {
      const std::string type = soma_type(store, path, range);
      if (type.empty()) return "it is a TileDB group without soma_object_type";
      return "it is a " + type;
    }
    case ObjectType::kArray: {
      const std::string type = soma_type(store, path, range);
      return type.empty() ? "it is a TileDB array" : "it is a " + type;
    }
    case ObjectType::kInvalid:
      break;
  }
  return {};
}

/// Names of a folder's members, the first of many.
std::string names_in(const io::Store& store, const std::string& path) {
  constexpr size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const io::DirectoryEntry& entry : store.list(path)) names.push_back(entry.name);
  if (names.empty()) return "the folder is empty";
  std::sort(names.begin(), names.end());
  std::string text = "the folder has ";
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kMostNames ? concat(text, " and ", names.size() - kMostNames, " more")
                                   : text;
}

TimeRange range_of(const OpenOptions& options) {
  TimeRange range;
  if (options.timestamp_ms) range.end = *options.timestamp_ms;
  return range;
}

class SomaExperiment final : public StoredExperiment {
 public:
  SomaExperiment(const ExperimentPlace& place, const OpenOptions& options, Metadata metadata)
      : store_(place.store),
        path_(place.path),
        options_(options),
        range_(range_of(options)),
        metadata_(std::move(metadata)) {
    root();  // so that a damaged group is found at once
  }

  const std::string& uri() const override { return path_; }
  const OpenOptions& options() const override { return options_; }

  DataFrame obs() const override {
    return frame(member_path(*root(), "obs", ObjectType::kArray, "table"));
  }

  std::vector<std::string> measurements() const override {
    return names_in(*root(), "ms", ObjectType::kGroup);
  }

  DataFrame var(std::string_view name) const override {
    return frame(member_path(*measurement(name), "var", ObjectType::kArray, "table"));
  }

  std::vector<std::string> layers(std::string_view name) const override {
    return names_in(*measurement(name), "X", ObjectType::kArray);
  }

  std::string default_layer(std::string_view measurement) const override {
    auto names = layers(measurement);
    if (names.size() == 1) return std::move(names.front());
    layer_path(measurement, kUsualLayer);  // NotFound, unless it is there
    return std::string(kUsualLayer);
  }

  Matrix x(std::string_view measurement, std::string_view layer) const override {
    const std::string path = layer_path(measurement, layer);
    return HandleAccess::matrix(matrices_.get(path, [&] {
      const GroupMember* table = root()->find("obs");
      const bool has_obs = table != nullptr && table->type == ObjectType::kArray;
      return open_matrix(store_, path, range_, options_.threads,
                         has_obs ? std::optional<DataFrame>(obs()) : std::nullopt);
    }));
  }

  std::map<std::string, std::string> metadata() const override {
    std::map<std::string, std::string> result;
    for (const auto& [key, value] : metadata_) result.emplace(key, text_of(value));
    return result;
  }

 private:
  std::shared_ptr<const Group> group(const std::string& at) const {
    return groups_.get(
        at, [&] { return std::make_shared<const Group>(Group::load(*store_, at, range_)); });
  }
  std::shared_ptr<const Group> root() const { return group(path_); }

  std::shared_ptr<const Group> measurement(std::string_view name) const {
    const auto all = group(member_path(*root(), "ms", ObjectType::kGroup, "collection"));
    return group(member_path(*all, name, ObjectType::kGroup, "measurement"));
  }

  std::string layer_path(std::string_view measurement_name, std::string_view layer) const {
    const auto parent = measurement(measurement_name);
    const auto all = group(member_path(*parent, "X", ObjectType::kGroup, "collection"));
    return member_path(*all, layer, ObjectType::kArray, "layer");
  }

  DataFrame frame(const std::string& at) const {
    return HandleAccess::table(frames_.get(at, [&] {
      return std::make_shared<const SomaTable>(store_, at, range_, options_.threads);
    }));
  }

  /// Names of the members of `type` in a collection of `parent`; empty if there is none.
  std::vector<std::string> names_in(const Group& parent, std::string_view collection,
                                    ObjectType type) const {
    std::vector<std::string> names;
    const GroupMember* found = parent.find(collection);
    if (found == nullptr || found->type != ObjectType::kGroup) return names;
    for (const auto& [name, member] : group(local_path(*found))->members()) {
      if (member.type == type) names.push_back(name);
    }
    return names;
  }

  /// Path of a member of `parent` that must be of `type`; `what` names its kind in messages.
  std::string member_path(const Group& parent, std::string_view name, ObjectType type,
                          const std::string& what) const {
    const GroupMember* found = parent.find(name);
    if (found == nullptr || found->type != type) {
      const std::string others = names_of(parent, type);
      throw NotFound("there is no " + what + " '" + std::string(name) + "'" +
                     (others.empty() ? " nor any other" : "; choose from " + others) + ", in " +
                     parent.path());
    }
    return local_path(*found);
  }

  /// Members may be elsewhere, by an absolute URI.
  std::string local_path(const GroupMember& member) const {
    const std::string part = member.relative ? "" : io::secret_part_of(member.uri);
    if (!part.empty()) {
      throw Unsupported("a member's URI must have no user, password or query, got one with " +
                        part +
                        ", which is not shown here; add the member to its collection again with a "
                        "plain URI, in " +
                        path_);
    }
    if (!io::same_store(path_, member.path)) {
      throw Unsupported("a member lies in another kind of store than its experiment: " +
                        member.path + "; copy it into the experiment's folder and add it to its " +
                        "collection again, in " + path_);
    }
    std::string place = io::normalize(member.path);
    if (!place.starts_with(path_ + "/")) tiledb::prefetch_metadata(*store_, place);
    return place;
  }

  io::StorePtr store_;
  std::string path_;
  OpenOptions options_;
  TimeRange range_;
  Metadata metadata_;
  LazyMap<Group> groups_;  ///< by path, as are the others
  LazyMap<SomaTable> frames_;
  LazyMap<HandleAccess::MatrixState> matrices_;
};

}  // namespace

StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options) {
  if (place.is_file) return nullptr;
  Metadata metadata = load_metadata(*place.store, place.path, range_of(options));
  if (!is_experiment(metadata)) return nullptr;
  return std::make_shared<const SomaExperiment>(place, options, std::move(metadata));
}

void refuse(const ExperimentPlace& place, const OpenOptions& options) {
  if (!place.is_file && options.timestamp_ms &&
      is_experiment(load_metadata(*place.store, place.path, TimeRange()))) {
    throw NotFound(concat("the experiment was not there yet at timestamp ", *options.timestamp_ms,
                          " (milliseconds since 1970), ", place.path));
  }
  const std::string what = not_an_experiment(*place.store, place.path, range_of(options));
  if (!what.empty()) throw InvalidArgument("not a SOMA experiment: " + what + ", " + place.path);
  throw InvalidArgument("neither a SOMA experiment, a pack nor a zarr store of AnnData: " +
                        names_in(*place.store, place.path) + ", " + place.path);
}

}  // namespace penstock::format::soma
