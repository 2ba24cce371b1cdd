#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "io/store.h"

// JSON as Python writes it: with bare NaN, Infinity and -Infinity, which RFC 8259 does not have.
// They are read as the texts "NaN", "Infinity" and "-Infinity", as zarr writes them elsewhere.

namespace penstock::format::zarr {

/// Larger documents are refused. A consolidated one has about 500 bytes an array.
inline constexpr uint64_t kMostJsonBytes = uint64_t{32} << 20;

/// Deeper documents are refused: copies of a json are recursive.
inline constexpr int kMostJsonDepth = 100;

/// Throws CorruptData.
nlohmann::json parse_json(std::string_view text);

/// The document in an object; none if there is no such object. Throws CorruptData with the path.
std::optional<nlohmann::json> read_json(const io::Store& store, const std::string& path);

}  // namespace penstock::format::zarr
