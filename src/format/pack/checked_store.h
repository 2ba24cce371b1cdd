#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "io/store.h"

// The tables of a pack are TileDB arrays, whose files have no checksums, so pack.json has one for
// each file. A file is checked when any part of it is first read.

namespace penstock::format::pack {

struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

/// Keys are paths below the folder of the pack.
using FileSums = std::map<std::string, FileSum>;

/// Wraps `store`. A file that changed, or that has no sum, is CorruptData. Files are not checked if
/// there are no sums or the store is remote, where reading a few bytes would fetch the whole file.
io::StorePtr checked_store(io::StorePtr store, const std::string& folder, const FileSums& sums);

/// A file that must exist, with its size if known.
struct ExpectedFile {
  std::string path;
  std::optional<uint64_t> bytes;
};

/// Throws CorruptData unless every file exists with its size. Lists folders and reads no file.
/// Without this check, a missing commit would silently hide cells.
void expect_files(const io::Store& store, std::span<const ExpectedFile> files);

/// Returns size and checksum of a file as it is now.
FileSum sum_of(const io::Store& store, const std::string& path);

}  // namespace penstock::format::pack
