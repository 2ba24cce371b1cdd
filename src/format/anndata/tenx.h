#pragma once

#include "format/chunked/array.h"

namespace penstock::format::anndata {

/// A file of counts that 10x Genomics' Cell Ranger wrote, as the root of an AnnData: barcodes as
/// obs, features as var, counts as X. Null if it is none.
///
/// Columns are called as scanpy.read_10x_h5 calls them: var_names are the names of the features;
/// gene_ids, feature_types and what else is stored of features follow.
///
/// Cell Ranger 1 and 2 wrote a group for each genome, with its own barcodes. `root` may be one of
/// them. Throws InvalidArgument, which names them, if the file has several.
///
/// Source: 10x Genomics, "Feature-Barcode Matrices", HDF5 format.
chunked::GroupPtr open_tenx(const chunked::GroupPtr& root);

}  // namespace penstock::format::anndata
