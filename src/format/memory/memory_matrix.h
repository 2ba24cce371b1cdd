#pragma once

#include <penstock/memory.h>

#include <string>

#include "format/matrix_source.h"

namespace penstock::format {

/// A matrix in the caller's memory, read in place (penstock/memory.h). Checks indptr, whole; ids
/// are checked when they are read. `path` is the place that their errors name.
MatrixSourcePtr make_memory_source(MatrixInMemory matrix, std::string path = {});

}  // namespace penstock::format
