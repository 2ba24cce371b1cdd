#pragma once

#include <penstock/row_selection.h>

#include <cstdint>
#include <vector>

#include "format/matrix_source.h"
#include "plan/epoch_plan.h"

namespace penstock::pipeline {

/// Returns the units that hold selected rows, each with an estimate of its packed size and of all
/// costs of waiting rows (table entries, page ends). `stored`: the rows that the matrix really has
/// (null: all), so that a unit's cells are not spread over gaps among the joinids. Throws
/// InvalidArgument if selected rows are outside the matrix.
std::vector<plan::UnitRows> selected_units(const format::MatrixSource& source,
                                           const format::MatrixReader& reader,
                                           const RowSelection& rows, const RowSelection* stored);

}  // namespace penstock::pipeline
