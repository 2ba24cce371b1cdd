#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <vector>

namespace penstock {

/// A matrix to be joined with others.
struct JoinPart {
  Matrix matrix;
  int64_t row_offset = 0;                ///< added to its joinids; a multiple of 2^32
  int64_t row_end = 0;                   ///< its joinids are less
  std::vector<int64_t> columns;          ///< joinids of the columns that are matched, ascending
  std::vector<uint32_t> joined_columns;  ///< the joined column of each, no two the same
};

/// Several matrices as one of `column_count` columns, to be read by one Loader: its shuffle, memory
/// and ranks are over the rows of all parts. Row ids are joinid + row_offset; columns that a part
/// lacks are zeros in its rows. Values have the type that holds those of all parts.
///
/// Throws InvalidArgument when rows overlap or columns do not fit.
Matrix join_matrices(std::vector<JoinPart> parts, int64_t column_count);

}  // namespace penstock
