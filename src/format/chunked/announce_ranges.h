#pragma once

#include <cstdint>
#include <vector>

#include "format/chunked/array.h"

namespace penstock::format::chunked {

/// Cells [begin, end) of a 1-D array.
struct ArrayRange {
  const Array* array = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Announces ranges of several arrays of one store that will be read soon. In a remote store their
/// chunks are found together and read together, so that a table costs as many round trips as a
/// column. Ranges of more than 64 MiB in all are left to the reads. Errors are those of the reads.
void announce_ranges(const std::vector<ArrayRange>& ranges);

}  // namespace penstock::format::chunked
