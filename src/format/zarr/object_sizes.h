#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/store.h"

namespace penstock::format::zarr {

/// Sizes of objects, none for those that are not there. Many are asked for at once: a remote store
/// lists each folder one time, and folders together.
std::vector<std::optional<uint64_t>> object_sizes(const io::Store& store,
                                                  std::span<const std::string> paths);

}  // namespace penstock::format::zarr
