#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tiledb/directory/timestamped_name.h"
#include "io/store.h"

// A TileDB group: named members that are arrays or groups (a SOMA experiment, collection or
// measurement). Source: format_spec/group.md, tiledb/sm/group/*.cc.
//
// Details files (the folder __group) have two versions; the newest file decides which applies. In
// version 1 the newest file is the whole list. In version 2 all visible files are replayed in
// order: later members replace earlier ones of the same key, and deletions remove them. A plain
// value.

namespace penstock::format::tiledb {

enum class ObjectType : uint8_t { kInvalid = 0, kGroup = 1, kArray = 2 };

/// Finds what lies at a path by looking for a group's or an array's folders (two or three
/// look-ups).
ObjectType object_type(const io::Store& store, const std::string& path);

struct GroupMember {
  std::string name;  ///< empty when the member has none
  ObjectType type = ObjectType::kInvalid;
  bool relative = true;
  std::string uri;   ///< as stored
  std::string path;  ///< resolved against the group; absolute URIs are unchanged

  /// Identifies the member within the group: its name, or its URI if it has no name.
  const std::string& key() const noexcept { return name.empty() ? uri : name; }
};

class Group {
 public:
  /// Throws `NotFound` if there is no group at `path`.
  static Group load(const io::Store& store, const std::string& path, const TimeRange& range = {});

  const std::string& path() const noexcept { return path_; }
  /// By key, ascending.
  const std::map<std::string, GroupMember, std::less<>>& members() const noexcept {
    return members_;
  }
  const GroupMember* find(std::string_view name) const noexcept;
  /// Throws `NotFound` that lists the members.
  const GroupMember& member(std::string_view name) const;

  /// Applies one inflated details file; for tests and fuzz targets.
  void apply_details(std::span<const std::byte> bytes);

 private:
  std::string path_;
  std::map<std::string, GroupMember, std::less<>> members_;
};

}  // namespace penstock::format::tiledb
