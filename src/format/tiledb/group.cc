#include "format/tiledb/group.h"

#include <penstock/error.h>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

constexpr std::string_view kGroupFile = "__tiledb_group.tdb";
constexpr std::string_view kDetailsFolder = "__group";

struct StoredMember {
  GroupMember member;
  bool deleted = false;
};

StoredMember parse_member(ByteReader& reader) {
  StoredMember result;
  const auto version = reader.read<uint32_t>("group member version");
  if (version != 1 && version != 2) {
    throw Unsupported(concat("group member has version ", version,
                             "; read are 1 and 2. A newer penstock may read it"));
  }
  const auto type = reader.read<uint8_t>("group member type");
  if (type > static_cast<uint8_t>(ObjectType::kArray)) {
    throw CorruptData(concat("group member type is unknown: ", type));
  }
  result.member.type = static_cast<ObjectType>(type);
  result.member.relative = reader.read<uint8_t>("group member relative flag") != 0;
  result.member.uri =
      reader.take_name(reader.read<uint64_t>("group member URI length"), "group member URI");
  if (reader.read<uint8_t>("group member name flag") != 0) {
    result.member.name =
        reader.take_name(reader.read<uint64_t>("group member name length"), "group member name");
  }
  if (version >= 2) result.deleted = reader.read<uint8_t>("group member deleted flag") != 0;
  return result;
}

// Details files of version 1 have names of four parts, or of five that end in _1.
bool is_version_1(const TimestampedName& file) { return file.version <= 1; }

}  // namespace

ObjectType object_type(const io::Store& store, const std::string& path) {
  if (store.exists(io::join(path, kGroupFile)) ||
      store.is_directory(io::join(path, kDetailsFolder))) {
    return ObjectType::kGroup;
  }
  if (store.is_directory(io::join(path, "__schema")) ||
      store.exists(io::join(path, "__array_schema.tdb"))) {
    return ObjectType::kArray;
  }
  return ObjectType::kInvalid;
}

Group Group::load(const io::Store& store, const std::string& path, const TimeRange& range) {
  if (object_type(store, path) != ObjectType::kGroup) {
    throw NotFound("no TileDB group at " + path);
  }
  Group group;
  group.path_ = io::normalize(path);
  const std::string directory = io::join(group.path_, kDetailsFolder);
  std::vector<TimestampedName> files = visible_files(store, directory, range);
  if (!files.empty() && is_version_1(files.back())) files.erase(files.begin(), files.end() - 1);
  for (const TimestampedName& file : files) {
    const std::string file_path = io::join(directory, file.name);
    const GenericTile tile = read_generic_tile(store, file_path);
    with_place([&] { group.apply_details(tile.bytes.span()); }, [&] { return file_path; });
  }
  return group;
}

void Group::apply_details(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint32_t>("group version");
  if (version != 1 && version != 2) {
    throw Unsupported(
        concat("group has version ", version, "; read are 1 and 2. A newer penstock may read it"));
  }
  const auto count = reader.read<uint64_t>("number of group members");
  reader.expect_items(count, 15, "group members");
  for (uint64_t i = 0; i < count; ++i) {
    StoredMember stored = parse_member(reader);
    GroupMember& member = stored.member;
    members_.erase(member.key());
    if (stored.deleted) continue;
    member.path = member.relative ? io::join(path_, member.uri) : io::normalize(member.uri);
    std::string key = member.key();
    members_.emplace(std::move(key), std::move(member));
  }
  if (!reader.empty()) {
    throw CorruptData(concat("group details have bytes left over: ", reader.remaining()));
  }
}

const GroupMember* Group::find(std::string_view name) const noexcept {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : &found->second;
}

const GroupMember& Group::member(std::string_view name) const {
  if (const GroupMember* found = find(name)) return *found;
  std::string known;
  for (const auto& entry : members_) known += (known.empty() ? "" : ", ") + entry.first;
  throw NotFound("no member \"" + std::string(name) + "\"; " +
                 (known.empty() ? "it has none" : "choose from " + known) + ", in " + path_);
}

}  // namespace penstock::format::tiledb
