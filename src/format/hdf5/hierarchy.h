#pragma once

#include <string>

#include "format/chunked/array.h"
#include "io/store.h"

namespace penstock::format::hdf5 {

/// The root group of an HDF5 file; null if the object is none. Throws CorruptData for damage, and
/// Unsupported for what is not read.
///
/// Compounds are records (chunked::ArrayInfo::fields). An attribute that refers to an object is its
/// name for array() and group().
chunked::GroupPtr open_hdf5(const io::StorePtr& store, const std::string& path);

}  // namespace penstock::format::hdf5
