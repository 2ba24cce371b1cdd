#pragma once

#include "format/open_experiment.h"

namespace penstock::format::anndata {

/// An AnnData in a zarr folder, a zip archive of one, or a collection that annbatch wrote. Null if
/// nothing there says that it is a zarr group.
///
/// Measurements are "RNA" (X and layers, with var) and "raw" (raw/X with raw/var), if there is one.
/// Throws InvalidArgument for a zarr group that is no AnnData.
StoredExperimentPtr open_experiment(const ExperimentPlace& place, const OpenOptions& options);

}  // namespace penstock::format::anndata
