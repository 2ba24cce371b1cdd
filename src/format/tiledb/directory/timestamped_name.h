#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/store.h"

// Names of the form __t1_t2_uuid[_version][.suffix], which order everything that TileDB writes, and
// the rules for which files with such names are visible in a time range. Source:
// format_spec/timestamped_name.md, format_spec/vacuum_file.md,
// tiledb/sm/fragment/fragment_identifier.cc, tiledb/sm/group/group_directory.cc.

namespace penstock::format::tiledb {

/// Milliseconds since 1970, both ends included. The default includes every time.
struct TimeRange {
  uint64_t start = 0;
  uint64_t end = std::numeric_limits<uint64_t>::max();

  bool contains(const TimeRange& other) const noexcept {
    return start <= other.start && other.end <= end;
  }
  bool overlaps(const TimeRange& other) const noexcept {
    return start <= other.end && other.start <= end;
  }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

struct TimestampedName {
  std::string name;  ///< whole file name
  TimeRange time;    ///< t1, t2
  std::string uuid;
  uint32_t version = 0;  ///< of the array format or of group details; 0 if the name has none
  std::string suffix;    ///< ".wrt", ".vac", …, or empty

  /// Returns nothing if `file_name` does not have this form.
  static std::optional<TimestampedName> parse(std::string_view file_name);
  /// Without the suffix.
  std::string stem() const { return name.substr(0, name.size() - suffix.size()); }
};

/// Order of application: by t1, ties by name.
bool operator<(const TimestampedName& a, const TimestampedName& b);

/// Files of a metadata or group-details folder, in order of application. They lie wholly in
/// `range`, and no .vac file there (also wholly in range) replaces them. Empty if the folder does
/// not exist.
std::vector<TimestampedName> visible_files(const io::Store& store, const std::string& directory,
                                           const TimeRange& range);

/// Lines of a .vac or .ign file, each cut to the last component of its path. Absolute and relative
/// URIs (format 19 changed from one to the other) then name the same file.
std::vector<std::string> read_name_lines(const io::Store& store, const std::string& path);

}  // namespace penstock::format::tiledb
