#pragma once

#include <vector>

#include "format/matrix_source.h"

namespace penstock::format {

/// Several matrices of the same columns and value type as one: the rows of the first, then those of
/// the second, numbered on. Unlike joined/, there are no gaps between the row ids, and columns are
/// the same. Units are those of the parts, so each unit is of one part.
///
/// Throws CorruptData unless columns and value types are the same.
MatrixSourcePtr stack_sources(std::vector<MatrixSourcePtr> parts);

}  // namespace penstock::format
