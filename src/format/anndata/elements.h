#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/chunked/array.h"

// How AnnData names what it stores: attributes encoding-type and encoding-version of groups and
// arrays, and their older forms. Source: anndata, docs/fileformat-prose.md and _io/specs.

namespace penstock::format::anndata {

/// A text attribute; empty if there is none or it is no text.
std::string text_attribute(const nlohmann::json& attributes, std::string_view name);
/// Whether an attribute is true, or a number other than 0, as some writers store it.
bool is_set(const nlohmann::json& attributes, std::string_view name);

/// encoding-type, or what files from before anndata 0.8 imply: "csr_matrix" for h5sparse_format
/// "csr", "dataframe" for a group with _index.
std::string encoding_of(const nlohmann::json& attributes);

/// Throws Unsupported, which names `path`, for an encoding-version that no anndata up to 0.13
/// writes of its encoding-type, or an encoding-type that it does not write. Files from before 0.8
/// have neither.
void expect_known_encoding(const nlohmann::json& attributes, const std::string& path);

/// The shape of a sparse matrix, from `shape` or h5sparse_shape. Throws CorruptData, which names
/// `path`, unless it is two numbers.
std::pair<uint64_t, uint64_t> sparse_shape(const nlohmann::json& attributes,
                                           const std::string& path);

/// Names of a table's columns in order, without the index. Throws CorruptData, which names the
/// table, unless the attribute column-order is names.
std::vector<std::string> column_order(const chunked::Group& table);

/// Whether the group is an AnnData object: by its encoding, or as before 0.8 by obs and var.
bool is_anndata(const chunked::Group& group);

/// Whether the group is a collection that annbatch wrote.
bool is_collection(const chunked::Group& group);

/// Whether the group is a MuData object: several AnnData of the same cells.
bool is_mudata(const chunked::Group& group);

}  // namespace penstock::format::anndata
