#pragma once

#include <string>

#include "format/chunked/array.h"
#include "io/store.h"

namespace penstock::format::zarr {

/// The zarr group at `path`, version 2 or 3; null if none is there. Only its own metadata are read,
/// and the consolidated ones of all members if there are any. Throws CorruptData for damage, and
/// Unsupported for a version that is not known.
chunked::GroupPtr open_zarr(const io::StorePtr& store, const std::string& path);

/// Whether a zarr array is at `path`.
bool is_zarr_array(const io::Store& store, const std::string& path);

}  // namespace penstock::format::zarr
