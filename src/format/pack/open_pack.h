#pragma once

#include <penstock/experiment.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/handle_access.h"
#include "format/pack/pack_contents.h"
#include "io/store.h"

// Opens a pack as an experiment: finds its parts and gives its layers as matrices. obs and var are
// TileDB arrays, read like those of any experiment.

namespace penstock::format::pack {

/// Reads pack.json of a folder. Throws InvalidArgument for any timestamp but the pack's own.
PackContents open_contents(const io::Store& store, const std::string& folder,
                           const OpenOptions& options);

/// Returns every file that pack.json lists.
std::vector<ExpectedFile> files_of(const PackContents& contents, const std::string& folder);

std::string obs_path(std::string_view pack);
std::string var_path(std::string_view pack, std::string_view measurement);
std::string layer_path(std::string_view pack, std::string_view measurement, std::string_view layer);

/// Opens the row files when the source is first asked for.
std::shared_ptr<const HandleAccess::MatrixState> open_matrix(const io::StorePtr& store,
                                                             const std::string& folder,
                                                             const PackedLayerContents& layer,
                                                             const DataFrame& obs,
                                                             unsigned threads);

}  // namespace penstock::format::pack
