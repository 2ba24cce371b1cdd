#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/chunked/array.h"
#include "format/stored_experiment.h"

namespace penstock::format::anndata {

/// The measurement of X and layers.
inline constexpr std::string_view kMainMeasurement = "RNA";

/// An AnnData object: obs, var, X, layers and raw. Source: anndata, docs/fileformat-prose.md.
/// `uri` is for people.
StoredExperimentPtr make_experiment(chunked::GroupPtr root, std::string uri,
                                    const OpenOptions& options);

/// The end of a message on a name that is not there.
std::string choose_from(const std::vector<std::string>& names);

}  // namespace penstock::format::anndata
