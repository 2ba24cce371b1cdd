#include "format/tiledb/directory/array_directory.h"

#include <penstock/error.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/tiledb/directory/consolidated_commits.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

constexpr std::string_view kSchemaFolder = "__schema";
constexpr std::string_view kCommitsFolder = "__commits";
constexpr std::string_view kFragmentsFolder = "__fragments";
constexpr std::string_view kFragmentMetaFolder = "__fragment_meta";
constexpr std::string_view kOldSchemaFile = "__array_schema.tdb";
constexpr std::string_view kFragmentMetadataFile = "__fragment_metadata.tdb";

// From this version on, consolidated fragments keep the cells' own timestamps.
constexpr uint32_t kPartialRangeVersion = 15;
// From this version on, each fragment is committed by its own file.
constexpr uint32_t kCommitFileVersion = 5;

TimestampedName parse_commit_name(std::string_view file_name, const std::string& place) {
  auto name = TimestampedName::parse(file_name);
  if (!name) {
    // A zero byte would end the message before the place.
    const std::string_view shown = file_name.substr(0, file_name.find('\0'));
    throw CorruptData(concat("not a timestamped name: ", shown, ", in ", place));
  }
  return *std::move(name);
}

bool visible(const TimestampedName& name, const TimeRange& range, bool dense) {
  const bool partly = !dense && name.version >= kPartialRangeVersion;
  return partly ? range.overlaps(name.time) : range.contains(name.time);
}

}  // namespace

ArrayDirectory ArrayDirectory::load(io::StorePtr store, const std::string& array_path,
                                    TimeRange range) {
  ArrayDirectory directory;
  directory.store_ = std::move(store);
  directory.path_ = io::normalize(array_path);
  directory.range_ = range;
  directory.load_schema_names();
  CommittedNames committed;
  directory.load_commits(committed);
  directory.load_root(committed);
  std::sort(directory.committed_.begin(), directory.committed_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::sort(directory.deletes_.begin(), directory.deletes_.end(), [](const auto& a, const auto& b) {
    return a.timestamp != b.timestamp ? a.timestamp < b.timestamp : a.marker < b.marker;
  });
  return directory;
}

std::string ArrayDirectory::schema_path(const std::string& schema_name) const {
  return schema_name == kOldSchemaFile ? io::join(path_, schema_name)
                                       : io::join(io::join(path_, kSchemaFolder), schema_name);
}

// Names are compared as text, because TileDB sorts its listing as text and takes the last name that
// fits. The result differs only if timestamps have different numbers of digits.
void ArrayDirectory::load_schema_names() {
  if (store_->exists(io::join(path_, kOldSchemaFile))) {
    schema_names_.emplace_back(kOldSchemaFile);
  }
  for (const io::DirectoryEntry& entry : store_->list(io::join(path_, kSchemaFolder))) {
    const auto name = TimestampedName::parse(entry.name);
    if (!entry.is_directory && name && name->suffix.empty()) schema_names_.push_back(entry.name);
  }
  if (schema_names_.empty()) throw NotFound("no TileDB array at " + path_);
  latest_schema_name_ = schema_names_.front();
  for (const std::string& schema_name : schema_names_) {
    const auto name = TimestampedName::parse(schema_name);
    if (name && name->time.end <= range_.end) latest_schema_name_ = schema_name;
  }
}

ArraySchemas ArrayDirectory::load_schemas() const {
  ArraySchemas schemas;
  for (const std::string& name : schema_names_) {
    schemas[name] = load_array_schema(*store_, schema_path(name));
  }
  return schemas;
}

void ArrayDirectory::load_commits(CommittedNames& committed) {
  const std::string folder = io::join(path_, kCommitsFolder);
  const std::vector<io::DirectoryEntry> entries = store_->list(folder);

  std::set<std::string> ignored;
  for (const io::DirectoryEntry& entry : entries) {
    if (!entry.name.ends_with(".ign")) continue;
    for (std::string& name : read_name_lines(*store_, io::join(folder, entry.name))) {
      ignored.insert(std::move(name));
    }
  }
  std::set<std::string> known_deletes;
  const auto add_delete = [&](std::string marker, std::string path, uint64_t offset) {
    const TimestampedName name = parse_commit_name(io::base_name(marker), path);
    if (!range_.contains(name.time) || !known_deletes.insert(name.name).second) return;
    deletes_.push_back({std::move(marker), name.time.start, std::move(path), offset});
  };
  for (const io::DirectoryEntry& entry : entries) {
    if (!entry.name.ends_with(".con")) continue;
    const std::string path = io::join(folder, entry.name);
    const Buffer bytes = store_->read_all(path);
    const ConsolidatedCommits commits =
        with_place([&] { return parse_consolidated_commits(bytes.span()); }, [&] { return path; });
    for (const std::string& marker : commits.writes) {
      std::string name = io::base_name(marker);
      if (!ignored.contains(name)) committed.insert(std::move(name));
    }
    for (const auto& [marker, offset] : commits.deletes) add_delete(marker, path, offset);
  }
  for (const io::DirectoryEntry& entry : entries) {
    const std::string path = io::join(folder, entry.name);
    if (entry.name.ends_with(".wrt")) {
      committed.insert(entry.name);
    } else if (entry.name.ends_with(".vac")) {
      vacuum_files_.push_back(
          {parse_commit_name(entry.name, folder), read_name_lines(*store_, path)});
    } else if (entry.name.ends_with(".del")) {
      add_delete(io::join(kCommitsFolder, entry.name), path, 0);
    }
  }
  for (const std::string& name : committed) {
    if (!name.ends_with(".wrt")) continue;
    const TimestampedName commit = parse_commit_name(name, folder);
    add_fragment(io::join(path_, kFragmentsFolder), commit.stem());
  }
  for (const io::DirectoryEntry& entry : store_->list(io::join(path_, kFragmentMetaFolder))) {
    if (!entry.name.ends_with(".meta")) continue;
    fragment_meta_paths_.push_back(io::join(io::join(path_, kFragmentMetaFolder), entry.name));
  }
}

// The layout before format 12: fragments, commit (.ok), vacuum and consolidated metadata files are
// all in the array's own folder.
void ArrayDirectory::load_root(const CommittedNames& committed) {
  const std::vector<io::DirectoryEntry> entries = store_->list(path_);
  std::set<std::string> committed_here;
  for (const std::string& name : committed) {
    if (name.ends_with(".ok")) committed_here.insert(name);
  }
  std::vector<std::string> meta_paths;
  for (const io::DirectoryEntry& entry : entries) {
    const std::string path = io::join(path_, entry.name);
    if (entry.name.ends_with(".ok")) {
      committed_here.insert(entry.name);
    } else if (entry.name.ends_with(".vac")) {
      vacuum_files_.push_back(
          {parse_commit_name(entry.name, path_), read_name_lines(*store_, path)});
    } else if (entry.name.ends_with(".meta")) {
      meta_paths.push_back(path);
    }
  }
  fragment_meta_paths_.insert(fragment_meta_paths_.begin(), meta_paths.begin(), meta_paths.end());
  for (const io::DirectoryEntry& entry : entries) {
    const auto name = TimestampedName::parse(entry.name);
    if (!entry.is_directory || !name || !name->suffix.empty()) continue;
    const bool committed_without_file =
        name->version < kCommitFileVersion &&
        store_->exists(io::join(io::join(path_, entry.name), kFragmentMetadataFile));
    if (committed_here.contains(entry.name + ".ok") || committed_without_file) {
      add_fragment(path_, entry.name);
    }
  }
}

void ArrayDirectory::add_fragment(const std::string& folder, const std::string& name) {
  FragmentLocation location;
  location.name = parse_commit_name(name, folder);
  location.path = io::join(folder, name);
  location.partly_in_range = !range_.contains(location.name.time);
  committed_.push_back(std::move(location));
}

std::vector<FragmentLocation> ArrayDirectory::fragments(bool dense) const {
  std::set<std::string_view> replaced;
  for (const VacuumFile& file : vacuum_files_) {
    if (!visible(file.name, range_, dense)) continue;
    replaced.insert(file.fragment_names.begin(), file.fragment_names.end());
  }
  std::vector<FragmentLocation> result;
  for (const FragmentLocation& fragment : committed_) {
    if (visible(fragment.name, range_, dense) && !replaced.contains(fragment.name.name)) {
      result.push_back(fragment);
    }
  }
  return result;
}

ArrayDirectory::ConsolidatedFooters ArrayDirectory::load_consolidated_footers(
    const std::vector<FragmentLocation>& wanted) const {
  ConsolidatedFooters footers;
  for (auto path = fragment_meta_paths_.rbegin(); path != fragment_meta_paths_.rend(); ++path) {
    const bool complete = std::all_of(wanted.begin(), wanted.end(), [&](const auto& fragment) {
      return footers.find(fragment.name.name).has_value();
    });
    if (complete) break;
    GenericTile tile = read_generic_tile(*store_, *path, 0, kBelievedListBytes);
    with_place([&] { footers.add(std::move(tile.bytes)); }, [&] { return *path; });
  }
  return footers;
}

}  // namespace penstock::format::tiledb
