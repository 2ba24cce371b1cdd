#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <vector>

namespace penstock {

/// A matrix to be joined with others.
struct JoinPart {
  Matrix matrix;
  int64_t row_offset = 0;                ///< added to its joinids; a multiple of 2^32
  int64_t row_end = 0;                   ///< exclusive upper bound of its joinids
  std::vector<int64_t> columns;          ///< joinids of its columns that are joined, ascending
  std::vector<uint32_t> joined_columns;  ///< for each of `columns` its joined column; distinct
};

/// Joins several matrices into one of `column_count` columns, so that one Loader can read them. Its
/// shuffle, memory and ranks apply to the rows of all parts. Row ids are joinid + row_offset. A
/// column that a part lacks is zero in its rows. The value type holds the values of all parts.
///
/// Throws InvalidArgument if there are no parts. If rows overlap or columns do not fit, the first
/// use of the result throws InvalidArgument.
Matrix join_matrices(std::vector<JoinPart> parts, int64_t column_count);

}  // namespace penstock
