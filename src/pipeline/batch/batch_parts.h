#pragma once

#include <penstock/loader.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace penstock::pipeline {

/// One array of a batch, as options and the chosen columns make it.
struct ChosenPart {
  BatchPart part;             ///< `column_end` counts chosen columns
  uint32_t first_column = 0;  ///< of the chosen columns
  int64_t first_id = 0;       ///< of the matrix's columns

  uint32_t columns() const noexcept {
    return static_cast<uint32_t>(part.column_end) - first_column;
  }
};

/// LoaderOptions::parts, or one part of all columns. `column_ids`: chosen columns, ascending; null:
/// the first `columns` of the matrix. Throws InvalidArgument if ends do not ascend or columns are
/// behind the last end.
std::vector<ChosenPart> chosen_parts(const LoaderOptions& options,
                                     const std::vector<int64_t>* column_ids, uint32_t columns);

}  // namespace penstock::pipeline
