#include "format/zarr/metadata/documents.h"

#include <penstock/error.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/threads/parallel.h"
#include "format/zarr/announce_metadata.h"
#include "format/zarr/metadata/json_text.h"
#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using nlohmann::json;

/// Round trips that are under way together.
constexpr unsigned kThreads = 16;

/// Attributes that are null or missing are none.
json attributes_of(const json& value) { return value.is_object() ? value : json::object(); }

std::string below(const std::string& node, const std::string& name) {
  return node.empty() ? name : node + "/" + name;
}

void expect_version(const json& document, int version, const std::string& place) {
  const json& format = field(document, "zarr_format");
  if (format == version) return;
  throw Unsupported("zarr_format must be " + std::to_string(version) + ", but is " + shown(format) +
                    std::string(kWriteAgain) + ", in " + place);
}

}  // namespace

std::shared_ptr<const Documents> Documents::open(const io::StorePtr& store,
                                                 const std::string& root) {
  const std::string path = io::normalize(root);
  for (const int version : {3, 2}) {
    const std::string place = io::join(path, version == 3 ? "zarr.json" : ".zgroup");
    auto found = read_json(*store, place);
    if (!found) continue;
    return with_place(
        [&]() -> std::shared_ptr<const Documents> {
          expect_version(*found, version, place);
          if (version == 3 && text_field(*found, "node_type") != "group") return nullptr;
          const std::shared_ptr<Documents> documents(new Documents(store, path, version));
          documents->root_document_ = std::move(*found);
          documents->take_consolidated();
          // This may list all of the hierarchy, so not before it is known to be one, and not if
          // the consolidated metadata say what is there.
          if (documents->consolidated_.is_null() && store->will_open(path)) {
            announce_metadata(*store, path);
          }
          return documents;
        },
        [&] { return place; });
  }
  return nullptr;
}

// Consolidated metadata of an unknown kind are left out: the documents themselves say the same.
void Documents::take_consolidated() {
  if (version_ == 3) {
    const json& consolidated = field(root_document_, "consolidated_metadata");
    if (!consolidated.is_object() || field(consolidated, "kind") != "inline") return;
    consolidated_ = field(consolidated, "metadata");
    root_document_.erase("consolidated_metadata");
  } else {
    const auto found = read_json(*store_, io::join(root_, ".zmetadata"));
    if (!found || field(*found, "zarr_consolidated_format") != 1) return;
    consolidated_ = field(*found, "metadata");
  }
  if (!consolidated_.is_object()) {
    throw CorruptData("consolidated metadata must be an object, but are " + shown(consolidated_));
  }
}

std::string Documents::path_of(const std::string& node) const {
  return node.empty() ? root_ : io::join(root_, node);
}

std::string Documents::array_document(const std::string& node) const {
  return io::join(path_of(node), version_ == 3 ? "zarr.json" : ".zarray");
}

std::optional<json> Documents::document(const std::string& node, const std::string& name) const {
  if (node.empty() && name == (version_ == 3 ? "zarr.json" : ".zgroup")) return root_document_;
  if (consolidated_.is_null()) return read_json(*store_, io::join(path_of(node), name));
  const json& found = field(consolidated_, version_ == 3 ? node : below(node, name));
  return found.is_null() ? std::nullopt : std::optional<json>(found);
}

std::optional<json> Documents::v3_document(const std::string& node,
                                           std::string_view wanted_type) const {
  auto found = document(node, "zarr.json");
  if (!found) return std::nullopt;
  return with_place(
      [&]() -> std::optional<json> {
        if (text_field(*found, "node_type") != wanted_type) return std::nullopt;
        return std::move(found);
      },
      [&] { return path_of(node); });
}

std::optional<json> Documents::group(const std::string& node) const {
  if (version_ == 3) {
    const auto found = v3_document(node, "group");
    if (!found) return std::nullopt;
    expect_version(*found, version_, path_of(node));
    return attributes_of(field(*found, "attributes"));
  }
  const auto found = document(node, ".zgroup");
  if (!found) return std::nullopt;
  return with_place(
      [&] {
        expect_version(*found, version_, path_of(node));
        return attributes_of(document(node, ".zattrs").value_or(json()));
      },
      [&] { return path_of(node); });
}

std::optional<ArrayMetadata> Documents::array(const std::string& node) const {
  if (version_ == 3) {
    const auto found = v3_document(node, "array");
    if (!found) return std::nullopt;
    return parse_v3_array(*found, path_of(node));
  }
  const auto found = document(node, ".zarray");
  if (!found) return std::nullopt;
  return parse_v2_array(*found, attributes_of(document(node, ".zattrs").value_or(json())),
                        path_of(node));
}

std::vector<std::string> Documents::members(const std::string& node) const {
  return consolidated_.is_null() ? listed_members(node) : consolidated_members(node);
}

std::vector<std::string> Documents::consolidated_members(const std::string& node) const {
  const std::string prefix = node.empty() ? node : node + "/";
  std::set<std::string> names;
  for (const auto& item : consolidated_.items()) {
    std::string_view rest = item.key();
    if (!rest.starts_with(prefix)) continue;
    rest.remove_prefix(prefix.size());
    if (version_ == 2) {
      const size_t slash = rest.find('/');
      if (slash == std::string_view::npos) continue;
      const std::string_view document = rest.substr(slash + 1);
      if (document != ".zarray" && document != ".zgroup") continue;
      rest = rest.substr(0, slash);
    }
    if (io::is_plain_path(rest) && rest.find('/') == std::string_view::npos) names.emplace(rest);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> Documents::listed_members(const std::string& node) const {
  const std::string folder = path_of(node);
  std::vector<std::string> names;
  for (const io::DirectoryEntry& entry : store_->list(folder)) {
    if (entry.is_directory) names.push_back(entry.name);
  }
  std::vector<char> is_node(names.size(), 0);
  parallel_for(names.size(), store_->traits().remote ? kThreads : 1, [&](size_t i) {
    const std::string path = io::join(folder, names[i]);
    const bool found = version_ == 3 ? store_->exists(io::join(path, "zarr.json"))
                                     : store_->exists(io::join(path, ".zgroup")) ||
                                           store_->exists(io::join(path, ".zarray"));
    is_node[i] = found ? 1 : 0;
  });
  std::vector<std::string> members;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_node[i] != 0) members.push_back(names[i]);
  }
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace penstock::format::zarr
