#pragma once

#include <penstock/memory.h>

#include "format/matrix_source.h"

namespace penstock::format {

/// A matrix in the caller's memory, read in place (penstock/memory.h). Checks indptr, whole; ids
/// are checked when they are read.
MatrixSourcePtr make_memory_source(MatrixInMemory matrix);

}  // namespace penstock::format
