#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace penstock::io {

/// How the names of files end that are a whole data set: HDF5, and zip archives of zarr stores. A
/// remote path that ends so is asked for by itself, so that no folder is listed for it.
inline constexpr std::string_view kWholeFileEndings[] = {".h5ad", ".h5mu", ".h5", ".hdf5", ".zip"};

inline bool is_named_whole_file(std::string_view path) {
  return std::any_of(std::begin(kWholeFileEndings), std::end(kWholeFileEndings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

}  // namespace penstock::io
