#pragma once

#include <string>

#include "format/chunked/array.h"
#include "format/stored_experiment.h"

namespace penstock::format::anndata {

/// A MuData object (.h5mu, or a zarr store of one). Each modality is a measurement, with its var, X
/// and layers; the raw of modality "rna" is the measurement "rna:raw", unless a modality has that
/// name.
///
/// obs is the table of the whole object. The columns of a modality follow as "rna:leiden", as
/// MuData.pull_obs names them, unless they are there already.
///
/// A modality of other cells, or of the same in another order, cannot be read as a measurement: x()
/// throws Unsupported, which says how to open it alone.
///
/// Source: mudata, docs/source/io/mudata.md and mudata/_core/io.py.
StoredExperimentPtr open_mudata(const chunked::GroupPtr& root, const std::string& path,
                                const OpenOptions& options);

}  // namespace penstock::format::anndata
