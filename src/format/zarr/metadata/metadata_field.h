#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Fields of metadata documents, checked.

namespace penstock::format::zarr {

/// What a user can do about an array in a form that is not read.
inline constexpr std::string_view kWriteAgain = "; write it again with anndata";

/// The field of an object; null if it has none. Throws CorruptData unless `object` is an object.
const nlohmann::json& field(const nlohmann::json& object, const std::string& name);

/// Text of a field. Throws CorruptData unless it is there and is text.
std::string text_field(const nlohmann::json& object, const std::string& name);

/// Lengths of dimensions. Throws CorruptData unless `list` is a list of numbers below 2^63.
std::vector<uint64_t> lengths(const nlohmann::json& list, std::string_view what);

/// A positive number of at most `most`.
uint32_t small_number(const nlohmann::json& value, uint32_t most, std::string_view what);

/// A json for messages, shortened, never with invalid UTF-8.
std::string shown(const nlohmann::json& value);

}  // namespace penstock::format::zarr
