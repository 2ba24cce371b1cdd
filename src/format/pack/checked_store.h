#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "io/store.h"

// The tables of a pack are TileDB arrays, whose files have no checksums of their own: pack.json has
// one of each. A file is checked when something of it is first read.

namespace penstock::format::pack {

struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

/// By path below the folder of the pack.
using FileSums = std::map<std::string, FileSum>;

/// `store`, of which a file that is not what it was, or that has no sum, is CorruptData. Where
/// there are no sums, and of a remote store, files are read as they are: a few bytes would take the
/// whole file over the network.
io::StorePtr checked_store(io::StorePtr store, const std::string& folder, const FileSums& sums);

/// A file that must be there, with so many bytes where they are known.
struct ExpectedFile {
  std::string path;
  std::optional<uint64_t> bytes;
};

/// Throws CorruptData unless every file is there, with its bytes. Folders are listed, no file is
/// read. A commit that is missing would otherwise be cells that are missing.
void expect_files(const io::Store& store, std::span<const ExpectedFile> files);

/// Of a file as it is.
FileSum sum_of(const io::Store& store, const std::string& path);

}  // namespace penstock::format::pack
