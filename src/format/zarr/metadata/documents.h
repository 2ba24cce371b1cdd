#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/zarr/metadata/array_metadata.h"
#include "io/store.h"

// The metadata documents of a hierarchy: of groups and arrays by their path below its root ("" is
// the root, "X/data" an array). They come from the consolidated metadata of the root if it has any,
// else each is read when it is asked for. What consolidated metadata do not name is not there.
//
// Immutable; safe from any thread.

namespace penstock::format::zarr {

class Documents {
 public:
  /// Null unless a group is at `root`.
  static std::shared_ptr<const Documents> open(const io::StorePtr& store, const std::string& root);

  /// Attributes of a group; none if no group is there.
  std::optional<nlohmann::json> group(const std::string& node) const;
  /// None if no array is there.
  std::optional<ArrayMetadata> array(const std::string& node) const;
  /// Names of the groups and arrays in a group, sorted.
  std::vector<std::string> members(const std::string& node) const;

  const io::StorePtr& store() const noexcept { return store_; }
  /// Where a node is, for people and for its chunks.
  std::string path_of(const std::string& node) const;
  /// Where the metadata of an array are, beside consolidated ones.
  std::string array_document(const std::string& node) const;

 private:
  Documents(io::StorePtr store, std::string root, int version)
      : store_(std::move(store)), root_(std::move(root)), version_(version) {}

  void take_consolidated();
  /// The document of that name ("zarr.json", ".zattrs") of a node.
  std::optional<nlohmann::json> document(const std::string& node, const std::string& name) const;
  std::optional<nlohmann::json> v3_document(const std::string& node,
                                            std::string_view wanted_type) const;
  std::vector<std::string> consolidated_members(const std::string& node) const;
  std::vector<std::string> listed_members(const std::string& node) const;

  const io::StorePtr store_;
  const std::string root_;
  const int version_;
  nlohmann::json root_document_;  ///< zarr.json or .zgroup of the root
  nlohmann::json consolidated_;   ///< documents by path; null if there are none
};

}  // namespace penstock::format::zarr
