#pragma once

#include <cstdint>
#include <vector>

#include "format/matrix_source.h"

// Several matrices as one (docs/design/0005-several-experiments.md): rows concatenated, columns
// matched. It is a MatrixSource like any other, so its readers know nothing of parts.

namespace penstock::format {

/// Rows of part k get the ids row_offset + id. Offsets are multiples of 2^32.
inline constexpr int64_t kRowsPerWord = int64_t{1} << 32;

struct JoinedPart {
  MatrixSourcePtr source;
  int64_t row_offset = 0;
  int64_t row_end = 0;                   ///< one past the largest id of the part, before the offset
  std::vector<int64_t> columns;          ///< stored ids of the matched columns, ascending
  std::vector<uint32_t> joined_columns;  ///< column of the joined matrix for each of them
};

/// Joins parts, given in the order of their offsets. Throws InvalidArgument if offsets overlap or
/// are not multiples of 2^32, and if columns are repeated or out of range.
MatrixSourcePtr join_sources(std::vector<JoinedPart> parts, int64_t column_count);

}  // namespace penstock::format
