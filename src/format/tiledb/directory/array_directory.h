#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/buffer.h"
#include "format/tiledb/directory/consolidated_commits.h"
#include "format/tiledb/directory/timestamped_name.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// The parts of an array that are visible in a time range: schemas, committed fragments that are not
// vacuumed, delete commits. The rules come from format_spec/array_file_hierarchy.md,
// consolidated_commits_file.md, ignore_file.md, vacuum_file.md and
// tiledb/sm/array/array_directory.cc.
//
// `load` lists __schema, __commits and __fragment_meta once and reads the commit files. Afterwards
// only the explicit functions below read. The result is a value that any thread may read.

namespace penstock::format::tiledb {

struct FragmentLocation {
  TimestampedName name;
  std::string path;  ///< the fragment's folder
  /// The fragment's time range is only partly inside the requested one: only cells whose own
  /// timestamp (t.tdb) is in range are visible.
  bool partly_in_range = false;
};

/// A committed delete: a condition that hides the matching cells written before it.
struct DeleteCommit {
  std::string marker;      ///< "__commits/__t1_t2_uuid_v.del", as fragments list it once applied
  uint64_t timestamp = 0;  ///< t1
  std::string path;        ///< object with the condition: the .del file, or a .con file
  uint64_t offset = 0;     ///< offset of its generic tile in that object
};

class ArrayDirectory {
 public:
  /// Throws `NotFound` if there is no array at `array_path`. Also finds fragments written before
  /// format 12 (TileDB 2.8), which lie in the array's own folder.
  static ArrayDirectory load(io::StorePtr store, const std::string& array_path,
                             TimeRange range = {});

  const std::string& path() const noexcept { return path_; }
  const TimeRange& time_range() const noexcept { return range_; }
  const io::StorePtr& store() const noexcept { return store_; }

  /// File names of all schemas, oldest first.
  const std::vector<std::string>& schema_names() const noexcept { return schema_names_; }
  /// The newest schema that is not newer than the range's end; the oldest if all are newer.
  const std::string& latest_schema_name() const noexcept { return latest_schema_name_; }
  std::string schema_path(const std::string& schema_name) const;
  /// Reads all schemas. Nearly always one or two small files.
  ArraySchemas load_schemas() const;

  /// Visible fragments, oldest first (by t1, ties by name), which is the order of overwriting. A
  /// consolidated fragment of format 15 or later that overlaps the range only in part is visible
  /// and marked in a sparse array (`dense` false), but invisible in a dense one.
  std::vector<FragmentLocation> fragments(bool dense) const;

  /// Delete commits wholly in range, oldest first. Update commits are ignored, as in TileDB.
  const std::vector<DeleteCommit>& deletes() const noexcept { return deletes_; }

  /// Footers of fragments from consolidated fragment metadata (__fragment_meta), by fragment name.
  /// Files are read newest first until all names in `wanted` are found. The footer of a name
  /// without an entry is only in the fragment's own folder.
  class ConsolidatedFooters;
  ConsolidatedFooters load_consolidated_footers(const std::vector<FragmentLocation>& wanted) const;

 private:
  struct VacuumFile {
    TimestampedName name;
    std::vector<std::string> fragment_names;
  };

  void load_schema_names();
  void load_commits(CommittedNames& committed);
  void load_root(const CommittedNames& committed);
  void add_fragment(const std::string& folder, const std::string& name);

  io::StorePtr store_;
  std::string path_;
  TimeRange range_;
  std::vector<std::string> schema_names_;
  std::string latest_schema_name_;
  std::vector<FragmentLocation> committed_;  // before vacuum and time range are applied
  std::vector<VacuumFile> vacuum_files_;
  std::vector<DeleteCommit> deletes_;
  std::vector<std::string> fragment_meta_paths_;  // oldest first
};

class ArrayDirectory::ConsolidatedFooters {
 public:
  /// Returns the bytes from the start of the fragment's footer (others may follow), or nothing if
  /// there is none.
  std::optional<std::span<const std::byte>> find(const std::string& fragment_name) const;
  bool empty() const noexcept { return places_.empty(); }

  /// Adds the footers of an inflated consolidated fragment metadata file. Names that exist are not
  /// replaced.
  void add(Buffer file_contents);

 private:
  std::vector<Buffer> files_;
  std::map<std::string, std::pair<size_t, uint64_t>, std::less<>> places_;  // name -> file, offset
};

}  // namespace penstock::format::tiledb
