#include "pipeline/batch/batch_parts.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"

namespace penstock::pipeline {

std::vector<ChosenPart> chosen_parts(const LoaderOptions& options,
                                     const std::vector<int64_t>* column_ids, uint32_t columns) {
  if (options.parts.empty()) {
    return {{{int64_t{columns}, options.layout, options.dtype, options.transforms, {}}, 0, 0}};
  }
  std::vector<ChosenPart> chosen;
  int64_t first_id = 0;
  uint32_t first_column = 0;
  for (const BatchPart& part : options.parts) {
    if (part.column_end < first_id) {
      throw InvalidArgument(
          concat("ends of parts must ascend: ", first_id, " is followed by ", part.column_end));
    }
    auto end = std::min(part.column_end, int64_t{columns});
    if (column_ids != nullptr) {
      end = std::lower_bound(column_ids->begin(), column_ids->end(), part.column_end) -
            column_ids->begin();
    }
    chosen.push_back({part, first_column, first_id});
    chosen.back().part.column_end = end;
    first_id = part.column_end;
    first_column = static_cast<uint32_t>(end);
  }
  if (first_column != columns) {
    throw InvalidArgument(concat("the last part must end where the matrix does: it ends at column ",
                                 first_id, ", and ", columns - first_column, " of ", columns,
                                 " chosen columns are behind it"));
  }
  return chosen;
}

}  // namespace penstock::pipeline
