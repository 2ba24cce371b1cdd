#include <penstock/error.h>
#include <penstock/experiment.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "format/handle_access.h"
#include "format/pack/open_pack.h"
#include "format/soma/data_frame.h"
#include "format/soma/matrix.h"
#include "format/tiledb/directory/prefetch.h"
#include "format/tiledb/group.h"
#include "format/tiledb/metadata.h"
#include "io/storage_options.h"
#include "io/store.h"
#include "io/url_secrets.h"

// A SOMA experiment is a TileDB group of obs (an array) and ms (a group of measurements). A
// measurement is a group of var (an array) and X (a group of arrays). Source: TileDB-SOMA, spec of
// the data model.
//
// Groups are read on first use and kept. Every object is checked against its soma_object_type, so
// that errors can distinguish a wrong path from a damaged object.

namespace penstock {
namespace {

using format::tiledb::Group;
using format::tiledb::GroupMember;
using format::tiledb::Metadata;
using format::tiledb::MetadataValue;
using format::tiledb::ObjectType;
using format::tiledb::TimeRange;

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

std::string not_an_experiment(const io::Store& store, const std::string& path,
                              const TimeRange& range) {
  switch (format::tiledb::object_type(store, path)) {
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
  return store.is_directory(path) ? "the folder holds no TileDB group" : "it is a file";
}

}  // namespace

struct Experiment::State {
  State(io::StorePtr store_in, std::string path_in, const OpenOptions& options_in)
      : store(std::move(store_in)), path(std::move(path_in)), options(options_in) {
    if (options.timestamp_ms) range.end = *options.timestamp_ms;
  }

  io::StorePtr store;
  std::string path;
  OpenOptions options;
  TimeRange range;
  Metadata metadata;
  std::optional<format::pack::PackContents> pack;  ///< set if the experiment is a pack
  io::StorePtr tables;                             ///< of the pack's obs and var

  mutable Mutex mutex;
  mutable std::map<std::string, std::shared_ptr<const Group>> groups
      PENSTOCK_GUARDED_BY(mutex);  // by path
  mutable std::map<std::string, std::shared_ptr<const HandleAccess::TableState>> frames
      PENSTOCK_GUARDED_BY(mutex);
  mutable std::map<std::string, std::shared_ptr<const HandleAccess::MatrixState>> matrices
      PENSTOCK_GUARDED_BY(mutex);

  std::shared_ptr<const Group> group(const std::string& at) const {
    const MutexLock lock(mutex);
    auto& held = groups[at];
    if (!held) held = std::make_shared<const Group>(Group::load(*store, at, range));
    return held;
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
                        path);
    }
    if (!io::same_store(path, member.path)) {
      throw Unsupported("a member lies in another kind of store than its experiment: " +
                        member.path + "; copy it into the experiment's folder and add it to its " +
                        "collection again, in " + path);
    }
    std::string place = io::normalize(member.path);
    if (!place.starts_with(path + "/")) format::tiledb::prefetch_metadata(*store, place);
    return place;
  }

  std::shared_ptr<const Group> measurement(std::string_view name) const {
    const auto root = group(path);
    const auto ms = group(member_path(*root, "ms", ObjectType::kGroup, "collection"));
    return group(member_path(*ms, name, ObjectType::kGroup, "measurement"));
  }

  DataFrame frame(const std::string& at,
                  const std::optional<RowSelection>& kept = std::nullopt) const {
    const MutexLock lock(mutex);
    auto& held = frames[at];
    if (!held) {
      held = std::make_shared<const HandleAccess::TableState>(tables ? tables : store, at, range,
                                                              options.threads, kept);
    }
    return HandleAccess::table(held);
  }

  /// A matrix by path, opened once.
  template <typename Open>
  Matrix matrix(const std::string& at, Open&& open) const {
    {
      const MutexLock lock(mutex);
      const auto held = matrices.find(at);
      if (held != matrices.end()) return HandleAccess::matrix(held->second);
    }
    std::shared_ptr<const HandleAccess::MatrixState> made = open();
    const MutexLock lock(mutex);
    return HandleAccess::matrix(matrices.try_emplace(at, std::move(made)).first->second);
  }
};

Experiment::Experiment(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Experiment Experiment::open(const std::string& uri, const OpenOptions& options) {
  io::StorePtr store = io::store_for(uri, options.storage);
  auto state = std::make_shared<State>(std::move(store), io::normalize(uri), options);
  const io::Store& from = *state->store;
  format::tiledb::prefetch_metadata(from, state->path);
  const bool is_file = from.exists(state->path);
  if (!is_file && !from.is_directory(state->path)) {
    throw NotFound("there is nothing at " + state->path);
  }
  if (!is_file) state->metadata = load_metadata(from, state->path, state->range);
  if (!is_file && !is_experiment(state->metadata) &&
      from.exists(io::join(state->path, format::pack::kContentsName))) {
    state->pack = format::pack::open_contents(from, state->path, options);
    format::pack::expect_files(from, format::pack::files_of(*state->pack, state->path));
    state->tables = format::pack::checked_store(state->store, state->path, state->pack->tables);
    state->options.timestamp_ms = state->pack->timestamp_ms;
    if (state->pack->timestamp_ms) state->range.end = *state->pack->timestamp_ms;
    return Experiment(std::move(state));
  }
  if (!is_experiment(state->metadata)) {
    if (!is_file && options.timestamp_ms &&
        is_experiment(load_metadata(from, state->path, TimeRange()))) {
      throw NotFound(concat("the experiment was not there yet at timestamp ", *options.timestamp_ms,
                            " (milliseconds since 1970), ", state->path));
    }
    throw InvalidArgument("not a SOMA experiment: " +
                          not_an_experiment(from, state->path, state->range) + ", " + state->path);
  }
  state->group(state->path);
  return Experiment(std::move(state));
}

const std::string& Experiment::uri() const { return state_->path; }
const OpenOptions& Experiment::options() const { return state_->options; }

DataFrame Experiment::obs() const {
  if (state_->pack) return state_->frame(format::pack::obs_path(state_->path), state_->pack->rows);
  const auto root = state_->group(state_->path);
  return state_->frame(state_->member_path(*root, "obs", ObjectType::kArray, "table"));
}

std::vector<std::string> Experiment::measurements() const {
  std::vector<std::string> names;
  if (state_->pack) {
    for (const auto& measurement : state_->pack->measurements) names.push_back(measurement.name);
    return names;
  }
  const auto root = state_->group(state_->path);
  const GroupMember* ms = root->find("ms");
  if (ms == nullptr || ms->type != ObjectType::kGroup) return names;
  for (const auto& [name, member] : state_->group(state_->local_path(*ms))->members()) {
    if (member.type == ObjectType::kGroup) names.push_back(name);
  }
  return names;
}

DataFrame Experiment::var(std::string_view measurement) const {
  if (state_->pack) {
    const auto& packed = state_->pack->measurement(measurement, state_->path);
    return state_->frame(format::pack::var_path(state_->path, packed.name));
  }
  const auto group = state_->measurement(measurement);
  return state_->frame(state_->member_path(*group, "var", ObjectType::kArray, "table"));
}

std::vector<std::string> Experiment::layers(std::string_view measurement) const {
  std::vector<std::string> names;
  if (state_->pack) {
    const auto& packed = state_->pack->measurement(measurement, state_->path);
    for (const auto& layer : packed.layers) names.push_back(layer.name);
    return names;
  }
  const auto group = state_->measurement(measurement);
  const GroupMember* x = group->find("X");
  if (x == nullptr || x->type != ObjectType::kGroup) return names;
  for (const auto& [name, member] : state_->group(state_->local_path(*x))->members()) {
    if (member.type == ObjectType::kArray) names.push_back(name);
  }
  return names;
}

Matrix Experiment::x(std::string_view measurement, std::string_view layer) const {
  if (state_->pack) {
    const auto& packed = state_->pack->measurement(measurement, state_->path);
    const auto& wanted = format::pack::layer_of(packed, layer, state_->path);
    const std::string folder = format::pack::layer_path(state_->path, packed.name, wanted.name);
    Matrix matrix = state_->matrix(folder, [&] {
      return format::pack::open_matrix(state_->store, folder, wanted, obs(),
                                       state_->options.threads);
    });
    return HandleAccess::named(std::move(matrix), measurement, layer);
  }
  const auto group = state_->measurement(measurement);
  const auto x = state_->group(state_->member_path(*group, "X", ObjectType::kGroup, "collection"));
  const std::string path = state_->member_path(*x, layer, ObjectType::kArray, "layer");
  Matrix matrix = state_->matrix(path, [&] {
    std::optional<DataFrame> rows;
    const GroupMember* obs_member = state_->group(state_->path)->find("obs");
    if (obs_member != nullptr && obs_member->type == ObjectType::kArray) rows = obs();
    return std::make_shared<const HandleAccess::MatrixState>(
        state_->store, path, state_->range, state_->options.threads, std::move(rows));
  });
  return HandleAccess::named(std::move(matrix), measurement, layer);
}

std::map<std::string, std::string> Experiment::metadata() const {
  if (state_->pack) return state_->pack->metadata;
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : state_->metadata) result.emplace(key, text_of(value));
  return result;
}

}  // namespace penstock
