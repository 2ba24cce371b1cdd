#pragma once

#include <string>

#include "format/matrix_source.h"
#include "format/tiledb/directory/timestamped_name.h"
#include "io/store.h"

// The MatrixSource of a 2-D TileDB array with int64 dimensions and one number a cell: an X layer of
// a SOMA experiment.
//
// Opening reads schema, commits, footers, R-trees and tile offsets. Long lists are read in parallel
// by `threads` threads (0: as many as cores) that end with the call. The source holds about 56
// bytes a tile and no thread or descriptor.

namespace penstock::format::soma {

MatrixSourcePtr open_x_source(const io::StorePtr& store, const std::string& path,
                              tiledb::TimeRange range = {}, unsigned threads = 0);

}  // namespace penstock::format::soma
