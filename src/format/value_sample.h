#pragma once

#include "format/matrix_source.h"

namespace penstock::format {

/// Whether a value of a few rows, spread over the matrix, is no whole number. Reads and decodes
/// these rows; reads nothing for a type of integers, and no rows or chunks that are too large
/// (format/sampled_rows.h).
bool has_fractions(const MatrixSource& source);

}  // namespace penstock::format
