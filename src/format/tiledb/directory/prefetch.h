#pragma once

#include <string>

#include "io/store.h"

// Announces to a remote store, at once, the objects of a TileDB array or group that are read when
// it is opened. Their names are enough to find them (format_spec/array_file_hierarchy.md).

namespace penstock::format::tiledb {

/// Lists everything below `path` once, then prefetches schemas, enumerations, commits, metadata and
/// group files, consolidated metadata, and the tails of the fragments' metadata at once. Does
/// nothing if the store is not remote or the tree is too large to list.
void prefetch_metadata(const io::Store& store, const std::string& path);

}  // namespace penstock::format::tiledb
