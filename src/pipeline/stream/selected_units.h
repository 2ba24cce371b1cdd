#pragma once

#include <penstock/row_selection.h>

#include <cstdint>
#include <vector>

#include "format/matrix_source.h"
#include "plan/epoch_plan.h"

namespace penstock::pipeline {

/// The units that hold selected rows, with an estimate of their packed size, everything included
/// that a row costs while it waits (table entry, page ends). `stored`: the rows that the matrix
/// really has, so that a unit's cells are not spread over gaps among the joinids; null: all. Throws
/// InvalidArgument when selected rows are outside the matrix.
std::vector<plan::UnitRows> selected_units(const format::MatrixSource& source,
                                           const format::MatrixReader& reader,
                                           const RowSelection& rows, const RowSelection* stored);

}  // namespace penstock::pipeline
