#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/remote/object_source.h"

// The manifest that `penstock index` writes into a static copy, because a web server cannot list:
//
//   {"format": "penstock-index", "version": 1, "files": {"obs/__schema/…": 1234, …}}
//
// File names are relative to the folder of the manifest, sizes in bytes. UTF-8 JSON.

namespace penstock::io {

inline constexpr std::string_view kIndexName = ".penstock-index.json";

/// The objects of a manifest, under `folder`. Throws Unsupported for a newer version and
/// CorruptData for anything else.
std::vector<RemoteObject> parse_index(std::string_view json, const std::string& folder);

}  // namespace penstock::io
