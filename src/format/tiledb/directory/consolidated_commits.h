#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The contents of a consolidated commits file (.con): lines of commit names, with delete conditions
// between them. Source: format_spec/consolidated_commits_file.md,
// tiledb/sm/array/array_directory.cc.

namespace penstock::format::tiledb {

/// Names of commit files (".wrt", ".ok") without folders.
using CommittedNames = std::set<std::string>;

struct ConsolidatedCommits {
  std::vector<std::string> writes;  ///< markers that end in ".wrt" or ".ok"
  /// Markers that end in ".del", each with the offset of its condition's generic tile in the file.
  std::vector<std::pair<std::string, uint64_t>> deletes;
};

ConsolidatedCommits parse_consolidated_commits(std::span<const std::byte> bytes);

}  // namespace penstock::format::tiledb
