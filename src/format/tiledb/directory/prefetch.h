#pragma once

#include <string>

#include "io/store.h"

// Which objects of a TileDB array or group are read when it is opened, told to a remote store in
// one go: names are enough to know (format_spec/array_file_hierarchy.md).

namespace penstock::format::tiledb {

/// One listing of all below `path`, then schemas, enumerations, commits, metadata and group files,
/// consolidated metadata, and the tails of the fragments' metadata at once. Nothing for a store
/// that is not remote, or whose tree is too large to list.
void prefetch_metadata(const io::Store& store, const std::string& path);

}  // namespace penstock::format::tiledb
