#pragma once

#include <cstdint>
#include <vector>

#include "format/matrix_source.h"

// Rows that are decoded to learn about a matrix before a memory budget is divided. What that takes
// is bounded here, whatever the rows and chunks are.

namespace penstock::format {

enum class SampledPart : uint8_t { kBegin, kMiddle };

/// At most `most` consecutive rows of a unit, fewer if they take too much memory. None if a single
/// one does. Reads nothing.
std::vector<int64_t> rows_to_sample(const MatrixReader& reader, uint32_t unit,
                                    const plan::FetchUnit& place, int64_t most, SampledPart part);

}  // namespace penstock::format
