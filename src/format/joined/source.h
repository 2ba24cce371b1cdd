#pragma once

#include <cstdint>
#include <vector>

#include "format/matrix_source.h"

// Several matrices as one (docs/design/0005-several-experiments.md): their rows one after the
// other, their columns matched. A MatrixSource like any other, so that what reads it knows nothing
// of parts.

namespace penstock::format {

/// Rows of part k get the ids row_offset + id. Offsets are multiples of 2^32.
inline constexpr int64_t kRowsPerWord = int64_t{1} << 32;

struct JoinedPart {
  MatrixSourcePtr source;
  int64_t row_offset = 0;
  int64_t row_end = 0;                   ///< ids of the part, before the offset, are less
  std::vector<int64_t> columns;          ///< stored ids of those that are matched, ascending
  std::vector<uint32_t> joined_columns;  ///< what each of them is in the joined matrix
};

/// Parts in the order of their offsets. Throws InvalidArgument for offsets that are no multiples of
/// 2^32 or overlap, and for columns that are not told apart or lie outside.
MatrixSourcePtr join_sources(std::vector<JoinedPart> parts, int64_t column_count);

}  // namespace penstock::format
